"""What a reward can be, declared where it is made, and held to."""

import math
from typing import Any

import pytest
from tests.rewards.reward_chains import chain_of, task_of

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards import (
    exact_match,
    format_reward,
    group_reward,
    length_reward,
    llm_judge,
    numeric_match,
    qa_exact_match,
    qa_f1,
    reward,
    turn_reward,
)
from agentfly.testing import make_context
from agentfly.types import ANY_SCORE, Group, ScoreRange, declared_range

TASK = task_of(answer="a")
CHAIN = chain_of("a", TASK)


@pytest.mark.parametrize(
    "made",
    [
        exact_match(),
        numeric_match(),
        qa_exact_match(),
        qa_f1(),
        format_reward(tags=["answer"]),
        length_reward(full_until=1, zero_at=2),
    ],
)
def test_built_in_rewards_declare_their_range(made: object) -> None:
    assert declared_range(made) == ScoreRange(0, 1)


def test_so_does_a_judge_by_its_grades() -> None:
    judge: Any = None
    assert llm_judge(judge, "1 is best", grades=(1.0, 5.0)).range == ScoreRange(1, 5)


def test_a_bool_is_0_or_1_and_anything_else_is_not_known() -> None:
    @reward
    def right(final_response: str) -> bool:
        return final_response == "a"

    @reward
    def much(final_response: str) -> float:
        return float(len(final_response))

    class Own:
        name = "own"
        range = (0, 4)

    assert (right.range, much.range) == (ScoreRange(0, 1), ANY_SCORE)
    assert declared_range(Own()) == ScoreRange(0, 4)
    assert declared_range(object()) == ANY_SCORE


class Scale:
    """Rewards that are methods."""

    @reward(range=(0, 3))
    def up_to_three(self, final_response: str) -> float:
        return 3.0 * len(final_response)


async def test_a_score_beyond_it_is_the_rewards_mistake() -> None:
    @reward(range=(0, 0.3))
    def rounded() -> float:
        return 0.1 + 0.2

    @reward(range=(-math.inf, 0.5))
    def bounded_above() -> float:
        return 0.75

    @turn_reward(range=(0, 1))
    def each_turn() -> float:
        return 1.5

    @group_reward(range=(0, 1))
    def lost(final_responses: list[str]) -> list[float]:
        return [-1.0 for _ in final_responses]

    context = make_context(TASK)
    assert (await rounded.score(CHAIN, context)).value == 0.1 + 0.2
    assert (await Scale().up_to_three.score(CHAIN, context)).value == 3.0
    words = "reward 'bounded_above' returned 0.75, and declares a range from -inf to 0.5"
    with pytest.raises(RewardError, match=words):
        await bounded_above.score(CHAIN, context)
    with pytest.raises(RewardError, match=r"turn reward 'each_turn' returned 1.5"):
        await each_turn.score(CHAIN, context)
    group = Group(id=CHAIN.group_id, task=TASK, members=(CHAIN,))
    with pytest.raises(RewardError, match="group reward 'lost' returned -1, and declares"):
        await lost.score_group(group, context)


@pytest.mark.parametrize("wrong", [(1, 0), (0, 0), (0,), 1, ("a", "b"), (0, math.nan)])
def test_a_range_is_two_numbers_the_lesser_first(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="must be two numbers, the lesser first, such as"):
        reward(range=wrong)(lambda final_response: 0.0)
