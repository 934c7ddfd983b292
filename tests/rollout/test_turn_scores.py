"""Rewards per turn: one for each turn, from any reward, and none is lost."""

from collections.abc import Sequence

import pytest
from tests.agents.scripts import call, engine

from agentfly import Agent, Score, StopReason, group_reward, reward, tool
from agentfly.types import Context, EnvSpec, Group, Message, Task, TokenStream, Trajectory, Turn


@tool
def poke() -> str:
    """Poke it."""
    return "poked"


TWO_TURNS = [call("poke"), "done"]


class Careless:
    """A reward, for one chain or a group, that does not count turns."""

    name = "careless"
    environments: tuple[EnvSpec, ...] = ()

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        return Score(value=1.0, per_turn=(1.0,))

    async def score_group(self, group: Group, context: Context) -> Sequence[Score | None]:
        return [Score(value=1.0, per_turn=(0.0, 0.0, 1.0)) for _ in group.members]


async def test_rewards_for_other_turns_than_there_are_leave_a_chain_unscored() -> None:
    agent = Agent(engine(TWO_TURNS), tools=[poke], reward=Careless())
    (chain,) = (await agent.run("Go.", retries=0)).trajectories
    assert (chain.stop, chain.score) == (StopReason.REWARD_FAILED, None)
    assert "reward 'careless' scored" in str(chain.error)
    assert "got 1 rewards for a chain of 2 turns" in str(chain.error)


async def test_so_do_those_of_a_group_reward() -> None:
    agent = Agent(engine(TWO_TURNS), tools=[poke], group_reward=Careless())
    (chain,) = (await agent.run("Go.", retries=0)).trajectories
    assert (chain.stop, chain.score) == (StopReason.REWARD_FAILED, None)
    assert "got 3 rewards for a chain of 2 turns" in str(chain.error)


def test_a_trajectory_holds_one_reward_for_each_turn() -> None:
    said = Turn(
        index=0,
        context_ids=(),
        completion=None,
        message=Message(role="assistant", content="Hi"),
        temperature=1.0,
    )
    with pytest.raises(ValueError, match="got 2 rewards for a chain of 1 turns"):
        Trajectory(
            task=Task(id="t", messages=()),
            group_id="t/0",
            chain_id="t/0/0",
            messages=(),
            streams=(TokenStream(turns=(said,)),),
            stop=StopReason.ANSWERED,
            score=Score(value=1.0, per_turn=(0.0, 1.0)),
        )


@reward
def second_turn() -> Score:
    return Score(value=0.75, per_turn=(0.0, 0.5))


@reward
def whole_chain() -> float:
    return 0.75


@group_reward
def by_turn(trajectories: list[Trajectory]) -> list[Score]:
    return [Score(value=3.0, per_turn=(1.0, 2.0)) for _ in trajectories]


@group_reward
def by_chain(trajectories: list[Trajectory]) -> list[float]:
    return [3.0 for _ in trajectories]


@pytest.mark.parametrize(
    ("options", "total", "per_turn"),
    [
        ({"group_reward": by_turn}, 3.0, (1.0, 2.0)),
        ({"group_reward": by_turn, "reward": second_turn}, 3.75, (1.0, 2.5)),
        ({"group_reward": by_turn, "reward": whole_chain}, 3.75, (1.0, 2.0)),
        ({"group_reward": by_chain, "reward": second_turn}, 3.75, (0.0, 0.5)),
        ({"group_reward": by_chain, "reward": whole_chain}, 3.75, None),
    ],
)
async def test_a_group_rewards_turns_are_added_to_the_chains(
    options: dict[str, object], total: float, per_turn: tuple[float, ...] | None
) -> None:
    agent = Agent(engine(TWO_TURNS), tools=[poke], **options)  # type: ignore[arg-type]
    (chain,) = (await agent.run("Go.", retries=0)).trajectories
    assert chain.score is not None
    assert (chain.score.value, chain.score.per_turn) == (total, per_turn)
