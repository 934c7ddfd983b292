"""A failed chain is data with a typed cause; its siblings go on, and nothing is scored 0."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.agents.scripts import Counter, call, engine

from agentfly import Agent, ConfigError, Context, Limits, Message, StopReason, tool
from agentfly.agents import RunResult, ToolCalling
from agentfly.engines import ScriptedTurn, log_normal
from agentfly.errors import EnvError
from agentfly.observe import read_trajectories
from agentfly.rewards import reward
from agentfly.testing import run_in_virtual_time
from agentfly.types import Task, ToolSpec, Trajectory


@reward
def always_one() -> float:
    """Give 1."""
    return 1.0


@tool
async def sleep_forever() -> str:
    """Never answer."""
    await asyncio.sleep(1e9)
    return "awake"


@tool
def fragile(context: Context) -> str:
    """Crash the machinery in chain 1."""
    if str(context.chain_id).endswith("/1"):
        raise EnvError("the worker died")
    return "fine"


def stops(result: RunResult) -> list[StopReason]:
    return [trajectory.stop for trajectory in result.trajectories]


async def test_one_chains_engine_failure_leaves_its_siblings_alone() -> None:
    def script(turn: ScriptedTurn) -> str:
        if turn.request.chain_id.endswith("/1"):
            raise ConnectionResetError("the server went away")
        return "Fine."

    result = await Agent(engine(script), reward=always_one).run("Hi", num_chains=4, retries=0)
    assert stops(result) == [
        StopReason.ANSWERED,
        StopReason.ENGINE_FAILED,
        StopReason.ANSWERED,
        StopReason.ANSWERED,
    ]
    assert result.rewards == (1.0, None, 1.0, 1.0)
    error = result.trajectories[1].error
    assert error is not None
    assert "ConnectionResetError: the server went away" in error


async def test_a_failed_reward_leaves_its_chain_unscored_and_is_never_zero() -> None:
    @reward
    def picky(trajectory: Trajectory) -> float:
        if trajectory.chain_id.endswith("/2"):
            raise ZeroDivisionError("oh no")
        return 0.5

    agent = Agent(engine(["Fine."]), reward=picky)
    result = await agent.run("Hi", num_chains=3, retries=0)
    assert result.rewards == (0.5, 0.5, None)
    failed = result.trajectories[2]
    assert failed.stop is StopReason.REWARD_FAILED
    assert failed.error is not None
    assert "ZeroDivisionError" in failed.error
    assert failed.turns, "what it sampled is still there to look at"


async def test_a_crash_of_a_tools_machinery_ends_only_its_chain_and_keeps_its_tokens() -> None:
    agent = Agent(engine([call("fragile"), "Done."]), tools=[fragile])
    result = await agent.run("Hi", num_chains=3, retries=0)
    assert stops(result) == [
        StopReason.ANSWERED,
        StopReason.ENV_CRASHED,
        StopReason.ANSWERED,
    ]
    assert len(result.trajectories[1].streams[0].turns) == 1


async def test_only_infrastructure_is_retried() -> None:
    tries: dict[str, int] = {}

    def flaky(turn: ScriptedTurn) -> str:
        chain = turn.request.chain_id
        tries[chain] = tries.get(chain, 0) + 1
        if chain.endswith("/0") and tries[chain] <= 2:
            raise OSError("not yet")
        return "Fine."

    class Broken(ToolCalling):
        def read(self, message: Message) -> Message:
            raise KeyError("my own bug")

    result = run_in_thread(Agent(engine(flaky)).run("Hi", num_chains=2, retries=2))
    assert stops(result) == [StopReason.ANSWERED] * 2
    assert [t.attempt for t in result.trajectories] == [2, 0]
    broken = await Agent(engine(["Fine."]), kind=Broken()).run("Hi", retries=5)
    assert stops(broken) == [StopReason.AGENT_FAILED]
    assert broken.trajectories[0].attempt == 0


def run_in_thread(coroutine: object) -> RunResult:
    """Run in virtual time, in a thread of its own because a loop is running here."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run_in_virtual_time, coroutine).result()  # type: ignore[arg-type]


def test_the_time_limit_names_what_the_chain_was_stuck_in() -> None:
    patient = tool(timeout=10_000)(sleep_forever.function)
    agent = Agent(
        engine([call("sleep_forever"), "Done."]), tools=[patient], limits=Limits(seconds=60)
    )
    (trajectory,) = run_in_virtual_time(agent.run("Hi")).trajectories
    assert trajectory.stop is StopReason.TIME_LIMIT
    assert trajectory.error is not None
    assert "time limit of 60 s" in trajectory.error
    assert "tool 'sleep_forever' in turn 0" in trajectory.error
    assert trajectory.score is None


def test_a_tools_own_deadline_is_an_observation() -> None:
    agent = Agent(engine([call("sleep_forever"), "Done."]), tools=[sleep_forever])
    (trajectory,) = run_in_virtual_time(agent.run("Hi")).trajectories
    assert trajectory.stop is StopReason.ANSWERED
    assert trajectory.turns[0].results[0].status == "timeout"
    spans = [span.seconds for span in trajectory.spans if span.kind == "tool"]
    assert spans == pytest.approx([30.0], abs=0.01)


def test_a_slow_engine_runs_into_the_chains_time_limit() -> None:
    slow = engine(["Hm."], latency=log_normal(mean=1000.0, sigma=0.1))
    result = run_in_virtual_time(Agent(slow, limits=Limits(seconds=5)).run("Hi", num_chains=2))
    assert stops(result) == [StopReason.TIME_LIMIT] * 2


async def test_invalid_calls_are_observations_until_the_cap() -> None:
    wrong = [
        call("fragil"),
        call("fragile", color="red"),
        "<tool_call>\n{oops\n</tool_call>",
        call("fragile"),
        call("nothing"),
        call("nothing"),
    ]
    agent = Agent(engine(wrong), tools=[fragile], limits=Limits(max_invalid_calls=2))
    (early,) = (await agent.run("Hi")).trajectories
    assert early.stop is StopReason.INVALID_CALLS
    assert [r.status for t in early.turns for r in t.results] == ["unknown_tool", "bad_arguments"]
    assert "Did you mean 'fragile'?" in early.turns[0].results[0].observation
    patient = Agent(engine(wrong), tools=[fragile], limits=Limits(max_invalid_calls=4))
    (late,) = (await patient.run("Hi", retries=0)).trajectories
    assert [r.status for t in late.turns for r in t.results] == [
        "unknown_tool",
        "bad_arguments",
        "malformed",
        "ok",
        "unknown_tool",
        "unknown_tool",
    ]


async def test_a_cancelled_run_cleans_up_and_keeps_what_was_finished(tmp_path: Path) -> None:
    saved = tmp_path / "chains.jsonl"
    reached = asyncio.Event()

    @tool(timeout=1000)
    async def hang(context: Context, env: Counter) -> str:
        """Hang."""
        reached.set()
        await asyncio.sleep(1000)
        return str(env.total)

    def script(turn: ScriptedTurn) -> str:
        return call("hang") if turn.request.chain_id.endswith("/1") else "Fine."

    before = Counter.alive
    agent = Agent(engine(script), tools=[hang])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(agent.run("Hi", num_chains=2, save_to=saved))
        await reached.wait()
        assert Counter.alive == before + 1
        task.cancel()
    assert task.cancelled()
    assert Counter.alive == before
    assert [t.chain_id[-2:] for t in read_trajectories(saved)] == ["/0"]


async def test_a_mistake_in_the_setup_stops_the_run_with_its_own_name() -> None:
    with pytest.raises(ConfigError, match="num_chains must be a whole number of at least 1"):
        await Agent(engine(["Hi"])).run("Hi", num_chains=0)
    with pytest.raises(ConfigError, match=r"unknown kind of agent 'reakt'. Did you mean 'react'"):
        Agent(engine(["Hi"]), kind="reakt")
    with pytest.raises(ConfigError, match="a model is"):
        Agent(42)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an event loop is running already"):
        Agent(engine(["Hi"])).run_sync("Hi")
    with pytest.raises(ConfigError, match=r"neither `question` nor `messages`.*It has: qestion"):
        await Agent(engine(["Hi"]), system_prompt="Go.").run({"qestion": "x"})


async def test_a_kind_that_fails_to_open_is_the_agents_failure() -> None:
    class NoOpening(ToolCalling):
        def open(
            self, task: Task, tools: Sequence[ToolSpec], observation: str | None
        ) -> Sequence[Message]:
            raise LookupError("no prompt")

    (trajectory,) = (await Agent(engine(["Hi"]), kind=NoOpening()).run("Hi")).trajectories
    assert trajectory.stop is StopReason.AGENT_FAILED
    assert trajectory.error == (
        "AgentError: making the opening messages raised LookupError: no prompt"
    )
