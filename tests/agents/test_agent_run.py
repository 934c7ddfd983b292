"""The facade: what goes in, what comes out, what can be watched."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.agents.scripts import call, engine
from tests.patience import PATIENCE

from agentfly import Agent, ConfigError, Message, RunResult, Task, ToolResult, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.engines import log_normal
from agentfly.rewards import reward
from agentfly.testing import run_in_virtual_time
from agentfly.types import (
    ChainStarted,
    Event,
    Image,
    Observed,
    Rewarded,
    Stopped,
    TokenSampled,
    ToolCalled,
    Trajectory,
    TurnRead,
)


@tool
def look(place: str) -> ToolResult:
    """Look somewhere.

    Args:
        place: Where.
    """
    return ToolResult(
        observation=f"DARK IN {place.upper()}",
        images=(Image(data=b"\x89PNG"),),
        info={"lux": 0.25},
        reward=0.125,
    )


@reward
def lucky(final_response: str) -> dict[str, float]:
    return {"reward": 0.1 + 0.2, "length": len(final_response)}


SCRIPT = [call("look", place="cellar"), "Nothing there, ünïcödé 🦉."]


@pytest.mark.parametrize(
    "rows",
    [
        "Look!",
        {"question": "Look!"},
        ["Look!"],
        [{"question": "Look!"}],
        [{"question": "Look!", "role": "a field of its own"}],
        [{"role": "user", "content": "Look!", "weight": None}],
        [{"role": "user", "content": "Look!"}],
        [Message(role="user", content="Look!")],
        [{"messages": [{"role": "user", "content": "Look!"}]}],
        Task.from_row({"question": "Look!"}),
    ],
)
def test_rows_come_in_every_natural_form(rows: object) -> None:
    result = Agent(engine(["Dark."])).run_sync(rows)  # type: ignore[arg-type]
    (trajectory,) = result.trajectories
    assert trajectory.messages == (Message(role="user", content="Look!"),)


@pytest.mark.parametrize("rows", [[], [3], 3, [None]])
def test_rows_that_are_none_of_these_are_refused(rows: object) -> None:
    with pytest.raises(ConfigError, match=r"expected a question|a row is a question"):
        Agent(engine(["Dark."])).run_sync(rows)  # type: ignore[arg-type]


async def test_a_result_is_saved_and_loaded_exactly(tmp_path: Path) -> None:
    agent = Agent(engine(SCRIPT), tools=[look], reward=lucky, system_prompt="Look well.")
    result = await agent.run([{"question": "A?", "n": 1}, {"question": "B?"}], num_chains=2)
    result.save(tmp_path / "run.jsonl")
    assert RunResult.load(tmp_path / "run.jsonl") == result
    assert result.rewards == (0.1 + 0.2,) * 4
    assert "4" in str(result.summary)


async def test_trajectories_come_in_the_order_of_the_rows() -> None:
    slow_first = engine(["Hm."], latency=lambda seed: seed.uniform() / 20)
    rows = [{"question": str(i)} for i in range(20)]
    ended: list[str] = []

    def note(trajectory: Trajectory) -> None:
        ended.append(trajectory.task.fields["question"])

    result = await Agent(slow_first).run(rows, on_trajectory=note)
    assert [t.task.fields["question"] for t in result.trajectories] == [str(i) for i in range(20)]
    assert sorted(ended) == sorted(str(i) for i in range(20))
    assert ended != [str(i) for i in range(20)], "they should not have ended in order"


def test_chains_are_admitted_in_order_and_never_more_than_allowed() -> None:
    under_way: set[str] = set()
    most = 0
    order: list[str] = []

    def watch(event: Event) -> None:
        nonlocal most
        if isinstance(event, ChainStarted):
            under_way.add(event.chain_id)
            order.append(event.chain_id)
            most = max(most, len(under_way))
        elif isinstance(event, Stopped):
            under_way.remove(event.chain_id)

    slow = engine(["Hm."], latency=log_normal(mean=1.0, sigma=1.0))
    rows = [{"id": str(i), "question": "?"} for i in range(30)]
    run_in_virtual_time(Agent(slow).run(rows, max_concurrent_chains=7, on_event=watch))
    assert most == 7
    assert order == [f"{i}/0/0" for i in range(30)]
    assert not under_way


async def test_everything_can_be_watched_as_it_happens() -> None:
    events: list[Event] = []
    agent = Agent(engine(SCRIPT), tools=[look], reward=lucky)
    result = await agent.run("Look!", on_event=events.append)
    kinds = [type(event) for event in events if not isinstance(event, TokenSampled)]
    assert kinds == [ChainStarted, TurnRead, ToolCalled, Observed, TurnRead, Rewarded, Stopped]
    turns = result.trajectories[0].turns
    tokenizer = ByteTokenizer(CHATML_TOKENS)
    for turn in turns:
        tokens = [e for e in events if isinstance(e, TokenSampled) and e.turn == turn.index]
        assert turn.completion is not None
        assert tuple(e.token_id for e in tokens) == turn.completion.token_ids
        assert "".join(e.text for e in tokens) == tokenizer.decode(turn.completion.token_ids[:-1])


def test_time_is_recorded_by_what_was_waited_for() -> None:
    @tool
    async def nap() -> str:
        """Nap."""
        await asyncio.sleep(2.0)
        return "RESTED"

    @reward
    async def slow() -> float:
        await asyncio.sleep(3.0)
        return 1.0

    model = engine([call("nap"), "Done."], latency=lambda _: 5.0)
    agent = Agent(model, tools=[nap], reward=slow)
    result = run_in_virtual_time(agent.run("Hi", num_chains=2, max_concurrent_chains=1))
    first, second = result.trajectories
    for trajectory, queued in ((first, 0.0), (second, 15.0)):
        seconds: dict[str, float] = {}
        for span in trajectory.spans:
            seconds[span.kind] = seconds.get(span.kind, 0.0) + span.seconds
        assert seconds == pytest.approx(
            {"queue": queued, "generate": 10.0, "tool": 2.0, "reward": 3.0}, abs=0.01
        )


async def test_several_calls_of_one_turn_run_at_once_and_answer_in_order() -> None:
    barrier = asyncio.Barrier(3)

    @tool
    async def meet(name: str) -> str:
        """Wait for the others.

        Args:
            name: Who.
        """
        await barrier.wait()
        return name.upper()

    three = "\n".join(call("meet", name=name) for name in ("ann", "bob", "cleo"))
    (trajectory,) = (await Agent(engine([three, "Met."]), tools=[meet]).run("Hi")).trajectories
    assert [r.observation for r in trajectory.turns[0].results] == ["ANN", "BOB", "CLEO"]
    assert [m.tool_call_id for m in trajectory.turns[0].replies] == ["call_0", "call_1", "call_2"]


async def test_plain_functions_run_at_once_and_one_that_fails_leaves_the_others_alone() -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)

    @tool
    def meet(name: str) -> str:
        """Wait for the others, each in a thread.

        Args:
            name: Who.
        """
        barrier.wait()
        if name == "bob":
            raise ValueError("no Bob")
        return name.upper()

    three = "\n".join(call("meet", name=name) for name in ("ann", "bob", "cleo"))
    (trajectory,) = (await Agent(engine([three, "Met."]), tools=[meet]).run("Hi")).trajectories
    ann, bob, cleo = trajectory.turns[0].results
    assert [ann.observation, cleo.observation] == ["ANN", "CLEO"]
    assert [ann.status, bob.status, cleo.status] == ["ok", "error", "ok"]
