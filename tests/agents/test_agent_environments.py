"""Environments are leased for one chain, reset for its task, and released on every way out."""

import asyncio

import pytest
from tests.agents.scripts import Counter, call, engine

from agentfly import Agent, Context, EnvSpec, Limits, Score, Step, StopReason, tool
from agentfly.engines import ScriptedTurn
from agentfly.observe import summarize
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.rewards import group_reward, reward
from agentfly.testing import run_in_virtual_time
from agentfly.types import Seed, Task, ToolStatus


@pytest.fixture(autouse=True)
def nothing_leaks() -> object:
    before = Counter.alive
    yield
    assert Counter.alive == before


async def test_an_environment_opens_the_conversation_and_answers_every_turn() -> None:
    agent = Agent(engine(["go", "go on", "unused"]), environment=Counter)
    (trajectory,) = (await agent.run({"id": "t", "goal": 2})).trajectories
    assert trajectory.stop is StopReason.ENV_ENDED
    assert [message.content for message in trajectory.conversation] == [
        "REACH 2.",
        "go",
        "NOW AT 1.",
        "go on",
        "NOW AT 2.",
    ]
    assert trajectory.score == Score(value=1.0, per_turn=(0.5, 0.5))
    assert [turn.state_key for turn in trajectory.turns] == ["0", "1"], "where each turn acted"


async def test_a_tool_may_answer_with_an_environments_step() -> None:
    @tool
    def poke(env: Counter) -> Step:
        """Poke it."""
        return env.step("poke")

    calls = [call("poke"), call("poke"), "unused"]
    agent = Agent(engine(calls), tools=[poke], environment=Counter)
    (trajectory,) = (await agent.run({"id": "t"})).trajectories
    assert [turn.state_key for turn in trajectory.turns] == ["0", "1"]
    assert [result.state_key for turn in trajectory.turns for result in turn.results] == ["1", "2"]
    assert [turn.reward for turn in trajectory.turns] == [0.5, 0.5]
    assert trajectory.stop is StopReason.TOOL_ENDED


class Picky(Counter):
    """Refuses every action but `go`."""

    def step(self, action: str) -> Step:
        if action == "go":
            return super().step(action)
        return Step(observation="NO.", info={"got": {action}}, state_key="0", invalid=True)


async def test_actions_that_an_environment_refuses_are_recorded_and_counted() -> None:
    agent = Agent(engine(["fly", "go", "go", "unused"]), environment=Picky)
    run = await agent.run({"id": "t", "goal": 2})
    turns = run.trajectories[0].turns
    assert [turn.info for turn in turns] == [{"got": ["fly"]}, {}, {}]
    assert [turn.invalid for turn in turns] == [True, False, False]
    summary = summarize(run.trajectories)
    assert summary.invalid_actions_share == 1 / 3
    assert summary.invalid_share is None, "there are no calls"


@tool
def act(action: str, env: Picky) -> Step:
    """Do it."""
    return env.step(action)


async def test_a_refusal_that_a_tool_passes_on_is_an_invalid_call() -> None:
    calls = [call("act", action="fly"), call("act", action="go"), "done"]
    agent = Agent(engine(calls), tools=[act], environment=Picky)
    summary = summarize((await agent.run({"id": "t"})).trajectories)
    assert summary.invalid_share == 1 / 2
    assert summary.invalid_actions_share is None, "all actions were calls"


async def test_refused_actions_are_no_malformed_calls_and_do_not_end_a_chain() -> None:
    refused = [call("act", action="fly")] * 2
    said = [*refused, call("act"), *refused, call("fly"), call("act", action="go")]
    limits = Limits(max_turns=7, max_invalid_calls=2)
    agent = Agent(engine(said), tools=[act], environment=Picky, limits=limits)
    (chain,) = (await agent.run({"id": "t"})).trajectories
    assert chain.stop is StopReason.TURN_LIMIT
    assert [result.status for turn in chain.turns for result in turn.results] == [
        ToolStatus.REFUSED,
        ToolStatus.REFUSED,
        ToolStatus.BAD_ARGUMENTS,
        ToolStatus.REFUSED,
        ToolStatus.REFUSED,
        ToolStatus.UNKNOWN_TOOL,
        ToolStatus.OK,
    ], "a refusal ends a row of invalid calls, as any call that was run"
    assert summarize([chain]).invalid_share == 6 / 7


@pytest.mark.parametrize("actions", [("fly", "swim"), ("fly", "go")])
@pytest.mark.parametrize("as_calls", [False, True])
async def test_without_a_reward_function_a_refused_action_scores_0(
    actions: tuple[str, str], *, as_calls: bool
) -> None:
    said = [call("act", action=action) if as_calls else action for action in actions]
    tools = [act] if as_calls else []
    agent = Agent(engine([*said, "Done."]), tools=tools, environment=Picky, max_turns=2)
    (chain,) = (await agent.run({"id": "t"})).trajectories
    last = 0.5 if "go" in actions else 0.0
    assert chain.score == Score(value=last, per_turn=(0.0, last))


async def test_steps_that_say_nothing_about_rewards_leave_a_chain_unscored() -> None:
    class Quiet(Counter):
        def step(self, action: str) -> Step:
            return Step(observation="SO.")

    agent = Agent(engine(["go", "on"]), environment=Quiet, max_turns=2)
    assert (await agent.run({"id": "t"})).trajectories[0].score is None


async def test_tools_and_reward_of_a_chain_share_one_instance_and_chains_share_none() -> None:
    @tool
    def poke(env: Counter) -> str:
        """Poke it."""
        return env.step("poke").observation

    @reward
    def seen(env: Counter, context: Context) -> float:
        context.metadata["log"] = env.log
        return float(env.total)

    twice = [call("poke") + "\n" + call("poke"), call("poke"), "Done."]
    agent = Agent(engine(twice), tools=[poke], reward=seen)
    made = Counter.made
    result = await agent.run("Hi", num_chains=5)
    assert result.rewards == (3.0,) * 5
    assert Counter.made == made + 5
    assert {len(t.metadata["log"]) for t in result.trajectories} == {3}


async def test_environments_that_only_tools_use_are_leased_at_the_first_call() -> None:
    @tool
    def poke(env: Counter) -> str:
        """Poke it."""
        return env.step("poke").observation

    made = Counter.made
    await Agent(engine(["No need."]), tools=[poke]).run("Hi", num_chains=3)
    assert Counter.made == made


class Fails(Counter):
    def step(self, action: str) -> Step:
        raise RuntimeError(f"cannot {action}")


class FailsToReset(Counter):
    def reset(self, task: Task, seed: Seed) -> Step:
        raise RuntimeError("stuck")


class Hangs(Counter):
    async def step(self, action: str) -> Step:  # type: ignore[override]
        await asyncio.sleep(1e6)
        return Step(observation="never")


class Babbles(Counter):
    def step(self, action: str) -> Step:
        return "not a step"  # type: ignore[return-value]


class SaysNoInfo(Counter):
    def step(self, action: str) -> Step:
        return Step(observation="so", info=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environment", "stop", "words"),
    [
        (Fails, StopReason.ENV_CRASHED, "stepping Fails in turn 0 raised RuntimeError: cannot go"),
        (FailsToReset, StopReason.ENV_CRASHED, "resetting FailsToReset raised RuntimeError: stuck"),
        (Hangs, StopReason.TIME_LIMIT, "environment 'step Hangs' in turn 0"),
        (Babbles, StopReason.ENV_CRASHED, "Babbles.step must return a Step, got 'not a step'"),
        (SaysNoInfo, StopReason.ENV_CRASHED, "reading the Step of SaysNoInfo raised"),
    ],
)
def test_a_broken_environment_ends_its_chain_with_a_typed_cause(
    environment: type, stop: StopReason, words: str
) -> None:
    agent = Agent(engine(["go"] * 3), environment=environment, limits=Limits(seconds=50))
    result = run_in_virtual_time(agent.run([{"id": "t"}], num_chains=2, retries=0))
    for trajectory in result.trajectories:
        assert trajectory.stop is stop
        assert words in str(trajectory.error)
        assert trajectory.score is None


def test_a_lease_that_never_comes_says_who_holds_what() -> None:
    async def main() -> list[object]:
        pool = EnvironmentManager({Counter: Pooling(max_instances=1)})
        async with pool.lease([EnvSpec(Counter)], owner="someone else", deadline=1e9):
            agent = Agent(
                engine(["go"]), environment=Counter, pool=pool, limits=Limits(lease_seconds=5)
            )
            (trajectory,) = (await agent.run([{"id": "t"}], retries=0)).trajectories
        return [trajectory.stop, trajectory.error]

    stop, error = run_in_virtual_time(main())
    assert stop is StopReason.LEASE_TIMEOUT
    assert "1 of at most 1 Counter are held (by someone else for 5.0 s)" in str(error)


async def test_group_rewards_see_all_members_after_their_environments_are_released() -> None:
    alive_at_scoring: list[int] = []
    before = Counter.alive

    @group_reward
    def longest(final_responses: list[str]) -> list[float]:
        alive_at_scoring.append(Counter.alive - before)
        best = max(map(len, final_responses))
        return [float(len(response) == best) for response in final_responses]

    @reward
    def half() -> float:
        return 0.5

    def script(turn: ScriptedTurn) -> str:
        return "x" * (1 + int(turn.request.chain_id[-1]))

    agent = Agent(engine(script), reward=half, group_reward=longest)
    result = await agent.run("Hi", num_chains=3)
    assert result.rewards == (0.5, 0.5, 1.5)
    assert result.trajectories[2].score is not None
    assert result.trajectories[2].score.parts["longest"] == 1.0
    agent = Agent(engine(script), environment=Counter, group_reward=longest, max_turns=1)
    await agent.run([{"id": "t"}], num_chains=3)
    assert alive_at_scoring == [0, 0]


async def test_a_failing_group_reward_leaves_all_members_unscored() -> None:
    @group_reward
    def broken(final_responses: list[str]) -> list[float]:
        raise ValueError("cannot compare")

    agent = Agent(engine(["Hi"]), group_reward=broken)
    result = await agent.run(["one", "two"], num_chains=2)
    assert result.rewards == (None,) * 4
    assert {t.stop for t in result.trajectories} == {StopReason.REWARD_FAILED}
