from typing import Any

import numpy as np
import pytest
from tests.rewards.reward_chains import chain_of, task_of

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards import group_reward
from agentfly.testing import make_context
from agentfly.types import (
    Context,
    Group,
    GroupReward,
    Score,
    Seed,
    StopReason,
    Task,
    Trajectory,
)

TASK = task_of(answer="a", bonus=0.5)


def group_of(*members: tuple[str, StopReason]) -> Group:
    chains = [
        chain_of(said, TASK, stop=stop, number=number)
        for number, (said, stop) in enumerate(members)
    ]
    return Group(id="t/0", task=TASK, members=tuple(chains))


ANSWERED = StopReason.ANSWERED
TWO = group_of(("a", ANSWERED), ("bb", ANSWERED))


async def score_group(reward: GroupReward, group: Group) -> list[Score | None]:
    return list(await reward.score_group(group, make_context(TASK)))


async def test_it_sees_all_chains_of_a_task_at_once() -> None:
    @group_reward
    def ranks(
        final_responses: list[str],
        trajectories: list[Trajectory],
        group: Group,
        whole: Group,
        task: Task,
        context: Context,
        bonus: float,
    ) -> list[float]:
        assert [t.final_response for t in trajectories] == final_responses
        assert whole is group
        assert group.task is task
        assert context.task is task
        return [bonus + len(response) for response in final_responses]

    fits: GroupReward = ranks
    assert fits.name == "ranks"
    assert await score_group(ranks, TWO) == [Score(value=1.5), Score(value=2.5)]


async def test_chains_that_failed_are_neither_shown_nor_scored() -> None:
    shown: list[list[str]] = []

    @group_reward
    async def count(group: Group, final_responses: list[str]) -> list[int]:
        shown.append(final_responses)
        return [len(group.members)] * len(group.members)

    group = group_of(
        ("x", StopReason.ENV_CRASHED),
        ("a", ANSWERED),
        ("y", StopReason.TIME_LIMIT),
        ("b", StopReason.TURN_LIMIT),
        ("z", StopReason.CANCELLED),
    )
    scores = await score_group(count, group)
    assert shown == [["a", "b"]]
    assert scores == [None, Score(value=2.0), None, Score(value=2.0), None]


async def test_it_is_not_called_when_nobody_answered() -> None:
    @group_reward
    def never(group: Group) -> list[float]:
        raise AssertionError(group)

    assert await score_group(never, group_of(("x", StopReason.ENGINE_FAILED))) == [None]


async def test_one_chain_may_be_left_unscored() -> None:
    @group_reward
    def picky(final_responses: list[str]) -> list[Any]:
        return [None, {"reward": 1, "length": 2}]

    assert await score_group(picky, TWO) == [None, Score(value=1.0, parts={"length": 2.0})]


async def test_an_array_will_do() -> None:
    @group_reward
    def centered(final_responses: list[str]) -> Any:
        lengths = np.array([len(r) for r in final_responses])
        return lengths - lengths.mean()

    assert await score_group(centered, TWO) == [Score(value=-0.5), Score(value=0.5)]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0], "returned 1 values for 2 chains"),
        ([1.0, 2.0, 3.0], "returned 3 values for 2 chains"),
        (1.0, "returned float; expected a list of 2 values"),
        ("ab", "returned str; expected a list"),
        ({"reward": 1}, "returned dict; expected a list"),
        ([1.0, float("nan")], "group reward 'wrong' returned nan"),
        ([1.0, {"reward": 1, "per_turn": [1, 2]}], "2 per-turn values for a chain of 1 turns"),
    ],
)
async def test_what_it_returns_must_be_one_value_for_each(returned: Any, message: str) -> None:
    @group_reward(name="wrong")
    def wrong() -> Any:
        return returned

    with pytest.raises(RewardError, match=message):
        await score_group(wrong, TWO)


async def test_what_it_raises_is_a_reward_error() -> None:
    @group_reward
    def broken(final_responses: list[str]) -> list[float]:
        return [1 / len(r.strip("ab")) for r in final_responses]

    with pytest.raises(RewardError, match="group reward 'broken' raised ZeroDivisionError"):
        await score_group(broken, TWO)


class Shop:
    def reset(self, task: Task, seed: Seed) -> str:
        return f"{task.id}{seed}"

    def close(self) -> None: ...


def test_asking_for_an_environment_is_refused_at_once() -> None:
    def by_name(env: Any) -> list[float]:
        return [float(env)]

    def by_class(shop: Shop) -> list[float]:
        return [float(shop is not None)]

    with pytest.raises(ConfigError, match=r"asks for an environment \(env\)"):
        group_reward(by_name)
    with pytest.raises(ConfigError, match=r"asks for an environment \(shop\)"):
        group_reward(by_class)
