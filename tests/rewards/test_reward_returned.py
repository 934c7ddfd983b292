from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from agentfly.errors import RewardError
from agentfly.rewards.read_score import read_score
from agentfly.types import Score


def read(returned: object, turns: int = 0) -> Score:
    return read_score(returned, reward="reward 'r'", turns=turns)


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (True, 1.0),
        (False, 0.0),
        (3, 3.0),
        (-0.5, -0.5),
        (Fraction(1, 4), 0.25),
        (np.float32(0.5), 0.5),
        (np.float16(2), 2.0),
        (np.int64(7), 7.0),
        (np.bool_(True), 1.0),
        (np.array(1.5), 1.5),
    ],
)
def test_numbers_of_all_kinds(returned: object, value: float) -> None:
    score = read(returned)
    assert score == Score(value=value)
    assert type(score.value) is float


def test_a_dict_has_a_reward_parts_and_values_per_turn() -> None:
    returned = {"reward": np.float32(0.5), "f1": 1, "em": False, "per_turn": (0, True)}
    assert read(returned, turns=2) == Score(
        value=0.5, parts={"f1": 1.0, "em": 0.0}, per_turn=(0.0, 1.0)
    )


def test_a_score_is_made_of_plain_numbers() -> None:
    numpy: Any = np
    given = Score(value=numpy.float64(2), parts={"a": numpy.int8(1)}, per_turn=(numpy.half(0.5),))
    score = read(given, turns=1)
    assert score == Score(value=2.0, parts={"a": 1.0}, per_turn=(0.5,))
    assert {type(x) for x in (score.value, score.parts["a"], *(score.per_turn or ()))} == {float}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, r"reward 'r' returned None .*expected a finite number, a bool, a dict"),
        ("1.0", r"reward 'r' returned str: '1.0'; expected a finite number"),
        ([1.0], r"returned list: \[1.0\]"),
        (np.array([1.0, 2.0]), r"returned ndarray"),
        (1 + 2j, r"returned complex"),
        (float("nan"), r"returned nan, which is not finite"),
        (np.float32("inf"), r"returned inf, which is not finite"),
        (10**400, r"returned inf, which is not finite"),
        ({"rewards": 1.0}, r"dict without 'reward'. Did you mean 'rewards'\? Known: rewards\."),
        ({}, r"dict without 'reward'. Known: none\."),
        ({"reward": None}, r"returned None"),
        ({"reward": 1, "note": "good"}, r"part 'note' = str: 'good'.*context.metadata"),
        ({"reward": 1, "f1": float("nan")}, r"part 'f1' = nan"),
        ({"reward": 1, "per_turn": 2.0}, r"per_turn = float: 2.0; expected a list of 2 numbers"),
        ({"reward": 1, "per_turn": "ab"}, r"per_turn = str: 'ab'"),
        ({"reward": 1, "per_turn": [1]}, r"returned 1 per-turn values for a chain of 2 turns"),
        ({"reward": 1, "per_turn": [1, None]}, r"per_turn\[1\] = None"),
        (Score(value=1.0, per_turn=(1.0,)), r"returned 1 per-turn values for a chain of 2 turns"),
    ],
)
def test_anything_else_is_an_error_that_says_what_was_got(returned: Any, message: str) -> None:
    with pytest.raises(RewardError, match=message):
        read(returned, turns=2)


def test_a_long_value_is_shown_shortly() -> None:
    with pytest.raises(RewardError) as raised:
        read("x" * 10_000)
    assert len(str(raised.value)) < 300
