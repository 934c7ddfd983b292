"""Foreign code that misbehaves harms its own chain at most, and is named."""

import asyncio
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.agents.scripts import Counter, call, engine

from agentfly import (
    Agent,
    ConfigError,
    Context,
    Limits,
    Message,
    SamplingParams,
    StopReason,
    ToolResult,
    tool,
)
from agentfly.agents import EngineChat, RunResult, ToolCalling
from agentfly.chat import CHATML, CHATML_TOKENS, ByteTokenizer, TemplateRenderer
from agentfly.engines import ScriptedEngine, ScriptedTurn
from agentfly.errors import (
    CallbackError,
    ChainError,
    DeadlineError,
    EngineError,
    InfrastructureError,
)
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.rewards import group_reward, llm_judge, reward
from agentfly.rollout.chain import stop_reason_for
from agentfly.testing import run_in_virtual_time
from agentfly.types import (
    ChainStarted,
    Completion,
    EnvSpec,
    Event,
    Group,
    OnToken,
    Request,
    Rewarded,
    Score,
    Stopped,
    TokenSampled,
    ToolCall,
    ToolSpec,
    Trajectory,
)


@tool(timeout=0.05)
async def stubborn() -> str:
    """Refuse to be cancelled, forever."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


def test_a_tool_that_refuses_its_cancellation_hangs_neither_chain_nor_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent(engine([call("stubborn"), "Done."]), tools=[stubborn])
    (trajectory,) = agent.run_sync("Hi").trajectories
    assert trajectory.stop is StopReason.ANSWERED
    assert trajectory.turns[0].results[0].status == "timeout"
    assert "ignores its cancellation" in caplog.text


class DeafEngine(ScriptedEngine):
    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue


def test_an_engine_that_refuses_its_cancellation_ends_at_the_chains_time_limit() -> None:
    deaf = DeafEngine([], tokenizer=ByteTokenizer(CHATML_TOKENS))
    result = Agent(deaf, limits=Limits(seconds=0.05)).run_sync("Hi", num_chains=2)
    assert {t.stop for t in result.trajectories} == {StopReason.TIME_LIMIT}


class OwnReward:
    """A reward of a user's own class, which does what its arguments say."""

    name = "own"
    environments = ()

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        if self.outcome == "hang":
            await asyncio.sleep(1e9)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome  # type: ignore[return-value]

    async def score_group(self, group: Group, context: Context) -> Sequence[Score | None]:
        return await self.score(group.members[0], context)  # type: ignore[return-value]


WRONG = [
    "hang",
    0.5,
    None,
    DeadlineError("too late"),
    ConfigError("not set up"),
    EngineError("the judge is down"),
    InfrastructureError("the cluster is down"),
    KeyError("a bug"),
]


@pytest.mark.parametrize("outcome", WRONG, ids=repr)
def test_whatever_a_reward_does_only_its_chains_are_left_unscored(outcome: object) -> None:
    for options in ({"reward": OwnReward(outcome)}, {"group_reward": OwnReward(outcome)}):
        agent = Agent(engine(["Hi"]), **options)  # type: ignore[arg-type]
        result = run_in_virtual_time(agent.run(["one", "two"], num_chains=2, retries=0))
        assert result.rewards == (None,) * 4
        for trajectory in result.trajectories:
            assert trajectory.stop.verdict.infrastructure
            assert trajectory.error


def test_every_chain_error_has_a_stop_reason() -> None:
    def below(kind: type[Exception]) -> list[type[Exception]]:
        return [kind, *(k for child in kind.__subclasses__() for k in below(child))]

    for kind in [*below(ChainError), DeadlineError, TimeoutError]:
        assert stop_reason_for(kind("x")).verdict.failure


class Quits(BaseException):
    """Not an Exception, such as pytest's own."""


async def test_a_tool_that_tries_to_exit_is_reported_to_the_model() -> None:
    @tool
    async def quit_now() -> str:
        """Quit."""
        raise Quits("bye")

    @tool
    def exit_now() -> str:
        """Exit."""
        raise SystemExit(3)

    script = [call("quit_now") + call("exit_now"), "Still here."]
    agent = Agent(engine(script), tools=[quit_now, exit_now])
    (trajectory,) = (await agent.run("Hi")).trajectories
    assert [r.status for r in trajectory.turns[0].results] == ["error", "error"]
    assert "Quits: bye" in trajectory.turns[0].results[0].observation


async def test_a_step_reward_that_is_no_number_is_the_tools_own_error() -> None:
    @tool
    async def generous() -> ToolResult:
        """Give too much."""
        return ToolResult(observation="here", reward=math.nan)

    agent = Agent(engine([call("generous"), "Done."]), tools=[generous])
    (trajectory,) = (await agent.run("Hi")).trajectories
    assert trajectory.turns[0].results[0].status == "error"
    assert trajectory.score is None


@pytest.mark.parametrize("method", ["open", "read", "reply"])
async def test_a_kind_that_returns_something_else_is_the_agents_failure(method: str) -> None:
    kind = ToolCalling()
    setattr(kind, method, lambda *_: [{"role": "user"}] if method != "read" else None)
    agent = Agent(engine([call("stubborn"), "x"]), kind=kind, tools=[])
    (trajectory,) = (await agent.run("Hi")).trajectories
    assert trajectory.stop is StopReason.AGENT_FAILED
    assert "expected Messages, got" in str(trajectory.error)


@pytest.mark.parametrize("kind", [ChainStarted, TokenSampled, Rewarded, Stopped])
async def test_a_callback_that_raises_stops_the_run_under_its_own_name(kind: type) -> None:
    def angry(event: Event) -> None:
        if isinstance(event, kind):
            raise ZeroDivisionError("oops")

    @reward
    def one() -> float:
        return 1.0

    with pytest.raises(CallbackError, match="your on_event raised ZeroDivisionError: oops"):
        await Agent(engine(["Hi"]), reward=one).run("Hi", on_event=angry)


async def test_what_is_no_json_in_the_metadata_is_kept_as_its_repr(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @reward
    def odd(context: Context) -> float:
        context.metadata["seen"] = {1, 2}
        context.metadata["fine"] = [1, "two"]
        return 1.0

    with caplog.at_level(logging.WARNING):
        result = await Agent(engine(["Hi"]), reward=odd).run("Hi", save_to=tmp_path / "run.jsonl")
    assert result.trajectories[0].metadata == {"seen": "{1, 2}", "fine": [1, "two"]}
    assert "not JSON" in caplog.text
    assert RunResult.load(tmp_path / "run.jsonl") == result


async def test_a_file_that_can_not_take_the_run_is_refused_before_it(tmp_path: Path) -> None:
    agent = Agent(engine(["Hi"]))
    taken = tmp_path / "run.jsonl"
    await agent.run("Hi", save_to=taken)
    with pytest.raises(ConfigError, match=r"run\.jsonl exists already, and is not overwritten"):
        await agent.run("Hi", save_to=taken)
    with pytest.raises(ConfigError, match="can't be written to"):
        await agent.run("Hi", save_to=tmp_path / "run.jsonl" / "below")
    with pytest.raises(ConfigError, match=r"row 'r'\['picture'\]"):
        await agent.run(
            {"id": "r", "question": "?", "picture": object()}, save_to=tmp_path / "new.jsonl"
        )


async def test_a_renderer_that_was_passed_reads_the_kinds_format() -> None:
    @tool
    async def search(query: str) -> str:
        """Search.

        Args:
            query: What for.
        """
        return query.upper()

    renderer = TemplateRenderer(ByteTokenizer(CHATML_TOKENS), CHATML)
    script = ["<search>owls</search>", "<answer>OWLS</answer>"]
    agent = Agent(engine(script), tools=[search], kind="tags", renderer=renderer)
    (trajectory,) = (await agent.run("Hi")).trajectories
    assert trajectory.final_response == "OWLS"

    class Opaque:
        pass

    with pytest.raises(ConfigError, match="can't be given to a Opaque"):
        Agent(engine([]), tools=[search], kind="tags", renderer=Opaque())  # type: ignore[arg-type]


async def test_a_users_stop_string_is_left_out_of_the_text_but_not_of_the_ids() -> None:
    agent = Agent(engine(["hello STOP and more"]), sampling=SamplingParams(stop=("STOP",)))
    (trajectory,) = (await agent.run("Hi")).trajectories
    assert trajectory.final_response == "hello "
    completion = trajectory.turns[0].completion
    assert completion is not None
    assert bytes(completion.token_ids) == b"hello STOP"


async def test_one_kind_can_serve_two_agents_with_prompts_of_their_own() -> None:
    kind = ToolCalling()
    first = Agent(engine(["Hi"]), kind=kind, system_prompt="One.")
    second = Agent(engine(["Hi"]), kind=kind, system_prompt="Two.")
    for agent, prompt in ((first, "One."), (second, "Two.")):
        (trajectory,) = (await agent.run("Hi")).trajectories
        assert trajectory.messages[0] == Message(role="system", content=prompt)

    class Own:
        def open(self, *_: object) -> list[Message]:
            return [Message(role="user", content="Hi")]

    with pytest.raises(ConfigError, match="a Own makes its own prompt"):
        Agent(engine([]), kind=Own(), system_prompt="Lost.")  # type: ignore[arg-type]


async def test_a_chain_that_never_spoke_is_not_scored() -> None:
    @reward
    def zero() -> float:
        return 0.0

    agent = Agent(engine(["Hi"]), reward=zero, limits=Limits(context_length=5))
    (trajectory,) = (await agent.run("A question longer than that.")).trajectories
    assert trajectory.stop is StopReason.CONTEXT_LIMIT
    assert trajectory.score is None


async def test_deeply_nested_arguments_are_the_models_mistake() -> None:
    deep = '<tool_call>{"name": "f", "arguments": ' + "[" * 5000 + "</tool_call>"
    agent = Agent(engine([deep, "Done."]), tools=[stubborn])
    (trajectory,) = (await agent.run("Hi")).trajectories
    assert trajectory.stop is StopReason.ANSWERED
    json.dumps([message.to_dict() for message in trajectory.conversation])


async def test_events_of_groups_and_retries_tell_the_final_truth() -> None:
    @group_reward
    def broken(final_responses: list[str]) -> list[float]:
        raise ValueError("no")

    events: list[Event] = []
    agent = Agent(engine(["Hi"]), group_reward=broken)
    await agent.run("Hi", num_chains=2, on_event=events.append)
    stops = [event.stop for event in events if isinstance(event, Stopped)]
    assert stops == [StopReason.REWARD_FAILED] * 2

    @group_reward
    def good(final_responses: list[str]) -> list[float]:
        return [1.0, 2.0]

    events.clear()
    result = await Agent(engine(["Hi"]), group_reward=good).run(
        "Hi", num_chains=2, on_event=events.append
    )
    assert sorted(e.score.value for e in events if isinstance(e, Rewarded)) == [1.0, 2.0]
    assert any(span.name == "good" for span in result.trajectories[0].spans)

    tries: list[int] = []

    def flaky(turn: ScriptedTurn) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return "Hi"

    events.clear()
    await Agent(engine(flaky)).run("Hi", on_event=events.append)
    assert [e.attempt for e in events if isinstance(e, ChainStarted)] == [0, 1]
    assert len([e for e in events if isinstance(e, Stopped)]) == 1


async def test_a_cancelled_chain_says_so() -> None:
    events: list[Event] = []
    slow = engine(["Hi"], latency=lambda _: 1000.0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(Agent(slow).run("Hi", on_event=events.append))
        await asyncio.sleep(0.1)
        task.cancel()
    assert isinstance(events[-1], Stopped)
    assert events[-1].stop is StopReason.CANCELLED


def test_chains_that_wait_to_be_tried_again_hold_no_place() -> None:
    started: dict[str, float] = {}

    def failing(turn: ScriptedTurn) -> str:
        if turn.request.chain_id.startswith("bad"):
            raise OSError("down")
        return "Hi"

    def note(event: Event) -> None:
        if isinstance(event, ChainStarted):
            started.setdefault(event.chain_id, asyncio.get_running_loop().time())

    rows = [{"id": f"bad{i}", "question": "?"} for i in range(5)]
    rows += [{"id": "good", "question": "?"}]
    agent = Agent(engine(failing))
    run_in_virtual_time(agent.run(rows, max_concurrent_chains=1, retries=3, on_event=note))
    assert started["good/0/0"] < 0.5


def test_a_pool_serves_one_event_loop_after_another() -> None:
    pool = EnvironmentManager({Counter: Pooling(max_instances=1)})
    agent = Agent(engine(["go", "on"]), environment=Counter, pool=pool)
    for _ in range(2):
        result = agent.run_sync([{"id": "t"}], num_chains=3)
        assert {t.stop for t in result.trajectories} == {StopReason.ENV_ENDED}


def plain_function() -> float:
    return 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reward": plain_function}, "decorate it with @reward"),
        ({"reward": group_reward(lambda group: [])}, "pass it as group_reward="),
        ({"group_reward": reward(plain_function)}, "pass it as reward="),
        ({"group_reward": plain_function}, "decorate it with @group_reward"),
        ({"tools": stubborn}, r"write tools=\[stubborn\]"),
        ({"tools": [plain_function]}, "has no description, and the model is shown one: w"),
        ({"environment": 3}, "takes a class, .* and got an instance: 3"),
        ({"max_turns": 0}, "max_turns must be greater than 0"),
    ],
)
def test_what_was_passed_wrongly_is_said_at_once(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Agent(engine(["Hi"]), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"num_chains": 2.5}, {"retries": -1}, {"seed": -1}, {"max_concurrent_chains": 0}]
)
def test_counts_are_whole_numbers(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="must be a whole number"):
        Agent(engine(["Hi"])).run_sync("Hi", **options)  # type: ignore[arg-type]


def test_an_environment_may_be_made_by_a_function() -> None:
    agent = Agent(engine(["go", "on"]), environment=lambda: Counter())
    assert agent.run_sync([{"id": "t"}]).trajectories[0].stop is StopReason.ENV_ENDED
    assert isinstance(agent.environment, EnvSpec)


async def test_any_engine_can_be_a_judge() -> None:
    renderer = TemplateRenderer(ByteTokenizer(CHATML_TOKENS), CHATML)
    judge = llm_judge(EngineChat(engine(["It is right.\nSCORE: 1"]), renderer), "Is it right?")
    agent = Agent(engine(["42"]), reward=judge)
    (trajectory,) = (await agent.run({"question": "6*7?", "answer": "42"})).trajectories
    assert trajectory.reward == 1.0, trajectory.error


class OwnTool:
    """A tool of a user's own class, which hangs and can't be cancelled."""

    spec = ToolSpec(name="own", description="Own.", parameters={"type": "object"})
    environments = ()

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue


def test_a_tool_of_ones_own_class_can_not_hang_a_chain_either() -> None:
    agent = Agent(engine([call("own")]), tools=[OwnTool()], limits=Limits(seconds=0.1))
    (trajectory,) = agent.run_sync("Hi").trajectories
    assert trajectory.stop is StopReason.TIME_LIMIT
    assert "tool 'own' in turn 0" in str(trajectory.error)
