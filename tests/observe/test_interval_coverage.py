"""How often the interval of a mean holds the true mean, by simulation."""

import math
import random
from collections.abc import Callable
from functools import cache
from statistics import fmean, stdev

import pytest
from tests.some_now import some_now

from agentfly.observe.estimate import Interval, mean_interval
from agentfly.types import ScoreRange

SAMPLES = 300
SLACK = 3 * math.sqrt(0.05 * 0.95 / SAMPLES)
"""Three standard errors of a share of 95% among so many."""

Draw = Callable[[random.Random], float]


def solved(chance: float) -> Draw:
    return lambda draw: float(draw.random() < chance)


def four_chains(draw: random.Random) -> float:
    """Draw a task that is easy or hard, and the share of its four chains that solve it."""
    chance = draw.choice([0.05, 0.9])
    return sum(draw.random() < chance for _ in range(4)) / 4


def rarely_lost(draw: random.Random) -> float:
    """Draw a small reward, or in one case of twenty a large loss."""
    return -1.0 if draw.random() < 0.05 else 0.25


def skewed(draw: random.Random) -> float:
    return float(draw.random() < 0.5) * draw.choice([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1.0])


CASES = {
    "solved 2%": (solved(0.02), 0.02, ScoreRange(0, 1)),
    "solved 50%": (solved(0.5), 0.5, ScoreRange(0, 1)),
    "solved 97%": (solved(0.97), 0.97, ScoreRange(0, 1)),
    "four chains": (four_chains, 0.475, ScoreRange(0, 1)),
    "rarely lost": (rarely_lost, 0.95 * 0.25 - 0.05, ScoreRange(-1, 1)),
    "skewed": (skewed, 1.63 / 14, ScoreRange(0, 1)),
}


@cache
def interval_of(values: tuple[float, ...], possible: ScoreRange) -> Interval | None:
    return mean_interval(values, possible)


@pytest.mark.parametrize("count", some_now([4, 12, 48], every=3))
@pytest.mark.parametrize("case", CASES)
def test_it_holds_the_true_mean_in_95_of_100_samples(case: str, count: int) -> None:
    take, truth, possible = CASES[case]
    draw, held = random.Random(f"{case} {count}"), 0
    for _ in range(SAMPLES):
        interval = interval_of(tuple(sorted(take(draw) for _ in range(count))), possible)
        assert interval is not None
        held += interval.low <= truth <= interval.high
    assert held / SAMPLES >= 0.95 - SLACK


def test_students_would_not() -> None:
    """Of a chance of 2%, most samples of 16 hold no success, and no spread at all."""
    draw, held = random.Random(0), 0
    for _ in range(SAMPLES):
        values = [solved(0.02)(draw) for _ in range(16)]
        half = 2.131 * stdev(values) / 4
        held += fmean(values) - half <= 0.02 <= fmean(values) + half
    assert held / SAMPLES < 0.5
