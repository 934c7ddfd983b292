import asyncio
from typing import Any

import pytest
from tests.rewards.reward_chains import score_of

from agentfly.errors import ConfigError, EnvError, RewardError
from agentfly.rewards import combine, group_reward, reward
from agentfly.types import Context, EnvSpec, Reward, Score, Seed, Task, Trajectory


class Shop:
    def reset(self, task: Task, seed: Seed) -> str:
        return f"{task.id}{seed}"

    def close(self) -> None: ...


class Store(Shop): ...


@reward
def exact(final_response: str, answer: str) -> bool:
    return final_response == answer


@reward
def style(final_response: str) -> dict[str, float]:
    return {"reward": 0.5, "commas": final_response.count(",")}


async def test_values_add_up_with_weights_and_parts_keep_their_own() -> None:
    both: Reward = combine({exact: 2.0, style: -0.1}, name="both")
    assert both.name == "both"
    score = await score_of(both, "4", answer="4")
    assert score.value == pytest.approx(2.0 * 1 - 0.1 * 0.5)
    assert score.parts == {"exact": 1.0, "style": 0.5, "style/commas": 0.0}
    assert score.per_turn is None


async def test_per_turn_values_add_up_with_weights() -> None:
    @reward
    def early() -> Score:
        return Score(value=1.0, per_turn=(1.0, 0.0))

    @reward
    def late() -> Score:
        return Score(value=3.0, per_turn=(1.0, 2.0))

    score = await score_of(combine({early: 0.5, late: 2.0, exact: 1.0}), ["x", "4"], answer="4")
    assert score.per_turn == (0.5 * 1 + 2 * 1, 0.5 * 0 + 2 * 2)
    assert score.value == 0.5 * 1 + 2 * 3 + 1


async def test_compositions_nest() -> None:
    inner = combine({style: 1.0}, name="inner")
    score = await score_of(combine({inner: 10.0}), "a,b")
    assert score.value == 5.0
    assert score.parts == {"inner": 0.5, "inner/style": 0.5, "inner/style/commas": 1.0}


async def test_parts_run_at_the_same_time() -> None:
    met = asyncio.Barrier(2)

    @reward
    async def one() -> float:
        await met.wait()
        return 1.0

    @reward
    async def other() -> float:
        await met.wait()
        return 2.0

    assert (await score_of(combine({one: 1.0, other: 1.0}), "")).value == 3.0


async def test_each_part_has_its_own_randomness() -> None:
    @reward
    async def first(context: Context) -> float:
        return context.rng.random()

    @reward
    async def second(context: Context) -> float:
        return context.rng.random()

    parts = (await score_of(combine({first: 1.0, second: 1.0}), "")).parts
    again = (await score_of(combine({second: 1.0, first: 1.0}), "")).parts
    assert parts["first"] != parts["second"]
    assert parts == again


async def test_a_failing_part_fails_the_whole_by_name_and_ends_the_others() -> None:
    ended: list[str] = []

    @reward
    async def patient() -> float:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("patient")
        return 1.0

    @reward
    async def broken(final_response: str) -> float:
        return 1.0 / len(final_response)

    whole = combine({patient: 1.0, broken: 1.0}, name="whole")
    with pytest.raises(RewardError, match="part 'broken' of reward 'whole' failed") as raised:
        await score_of(whole, "")
    assert "ZeroDivisionError" in str(raised.value)
    assert ended == ["patient"]


class Foreign:
    """A reward that was not made by a decorator."""

    environments: tuple[EnvSpec, ...] = ()

    def __init__(self, outcome: Score | Exception) -> None:
        self.name = "foreign"
        self.outcome = outcome

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


async def test_a_reward_of_any_class_can_be_a_part() -> None:
    assert (await score_of(combine({Foreign(Score(value=4.0)): 0.5}), "")).value == 2.0
    with pytest.raises(RewardError, match=r"part 'foreign'.* raised KeyError"):
        await score_of(combine({Foreign(KeyError("x")): 1.0}), "")
    short = Foreign(Score(value=1.0, per_turn=(1.0,)))
    with pytest.raises(RewardError, match="got 1 rewards for a chain of 2 turns"):
        await score_of(combine({short: 1.0}), ["a", "b"])


async def test_a_crashed_environment_stays_one() -> None:
    crash = EnvError("gone")
    with pytest.raises(EnvError) as raised:
        await score_of(combine({Foreign(crash): 1.0, style: 1.0}), "")
    assert raised.value is crash
    assert crash.__notes__ == ["in part 'foreign' of reward 'combined'"]


def test_environments_are_those_of_all_parts_each_once() -> None:
    @reward
    def a(env: Shop) -> bool:
        return env is not None

    @reward
    def b(env: Shop, store: Store) -> bool:
        return env is not store

    assert combine({a: 1.0, b: 1.0}).environments == (EnvSpec(Shop), EnvSpec(Store))


def test_mistakes_are_reported_at_once() -> None:
    @group_reward
    def ranks(final_responses: list[str]) -> list[int]:
        return [len(r) for r in final_responses]

    wrong: list[tuple[Any, str]] = [
        ({}, "at least one reward"),
        ([exact, style], "takes a dict"),
        ({exact: float("nan")}, "weight of 'exact' must be finite"),
        ({ranks: 1.0}, "rewards that score one chain, got <group reward 'ranks'>"),
        ({exact: 1.0, reward(name="exact")(lambda answer: 1.0): 1.0}, "got twice: exact"),
    ]
    for weights, message in wrong:
        with pytest.raises(ConfigError, match=message):
            combine(weights)
