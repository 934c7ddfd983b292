"""How often intervals by a bootstrap over tasks hold the truth: means and paired differences."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.observe.simulated_intervals import (
    Samples,
    resampled_holds,
    reward_interval_holds,
)

from agentfly.observe.bootstrap import MIN_DIFFERING, paired_interval, reward_interval
from agentfly.observe.estimate import Interval
from agentfly.types import ANY_SCORE, ScoreRange

UNIT, SIGNED = ScoreRange(0.0, 1.0), ScoreRange(-1.0, 1.0)
SAMPLES = 4000
"""Standard error of a coverage of 95%: 0.34%."""

Random = np.random.Generator
Shape = tuple[int, int]
Draw = Callable[[Random, Shape], Samples]


def four_attempts(random: Random, shape: Shape) -> Samples:
    """Draw tasks that are easy or hard, and the share of four attempts that solve each."""
    return random.binomial(4, random.choice([0.05, 0.9], size=shape)) / 4


def mostly_nothing(random: Random, shape: Shape) -> Samples:
    """Draw rewards that are 0 in seven of ten tasks, and somewhere between 0 and 1 in the rest."""
    return np.where(random.random(shape) < 0.3, random.beta(2, 2, shape), 0.0)


def skewed(random: Random, shape: Shape) -> Samples:
    """Draw rewards of which half are 0, most others small, and one in fourteen is 1."""
    sizes = random.choice([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1.0], size=shape)
    return np.where(random.random(shape) < 0.5, sizes, 0.0)


def rarely_lost(random: Random, shape: Shape) -> Samples:
    """Draw a small reward, or in one case of twenty a large loss."""
    return np.where(random.random(shape) < 0.05, -1.0, 0.25)


MEANS: dict[str, tuple[Draw, float, ScoreRange]] = {
    "uniform": (lambda random, shape: random.random(shape), 0.5, UNIT),
    "four attempts": (four_attempts, 0.475, UNIT),
    "mostly nothing": (mostly_nothing, 0.15, UNIT),
    "skewed": (skewed, 1.63 / 14, UNIT),
    "near 0.2": (lambda random, shape: random.beta(2, 8, shape), 0.2, UNIT),
    "rarely lost": (rarely_lost, 0.95 * 0.25 - 0.05, SIGNED),
    "normal, no range": (lambda random, shape: random.normal(size=shape), 0.0, ANY_SCORE),
    "exponential, no range": (lambda random, shape: random.exponential(size=shape), 1.0, ANY_SCORE),
}
WIDER = {("uniform", 5), ("near 0.2", 5), ("near 0.2", 10), ("skewed", 5), ("skewed", 20)} | {
    ("rarely lost", count) for count in (5, 10, 20, 40)
}
"""Means far from the ends of their range, with too few tasks to know that: above 97%."""


def coverage_of_mean(case: str, count: int, samples: int) -> float:
    draw, truth, range = MEANS[case]
    values = draw(np.random.default_rng(count), (samples, count))
    return float(reward_interval_holds(values, truth, range).mean())


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 10, 20, 40, 60, 200])
@pytest.mark.parametrize("case", MEANS)
def test_intervals_of_means_hold_them_in_93_to_97_of_100_samples(case: str, count: int) -> None:
    if case.endswith("no range") and count < MIN_DIFFERING:
        pytest.skip("the interval is Student's")
    coverage = coverage_of_mean(case, count, SAMPLES)
    print(f"{case}, {count} tasks: {coverage:.1%}")
    assert 0.93 <= coverage <= (1.0 if (case, count) in WIDER else 0.97)


@pytest.mark.parametrize(
    ("case", "count"), [("four attempts", 12), ("skewed", 20), ("exponential, no range", 20)]
)
def test_few_tasks_are_enough_for_the_interval_of_a_mean(case: str, count: int) -> None:
    assert 0.925 <= coverage_of_mean(case, count, 1000) <= 0.975


def attempts_of_two(number: int) -> Draw:
    """Draw what the second of two models has more; it solves 5 in 100 attempts more."""

    def draw(random: Random, shape: Shape) -> Samples:
        chance = random.choice([0.1, 0.5, 0.9], size=shape)
        first, second = random.binomial(number, chance), random.binomial(number, chance + 0.05)
        return (second - first) / number

    return draw


DIFFERENCES: dict[str, tuple[Draw, float]] = {
    "one attempt": (attempts_of_two(1), 0.05),
    "four attempts": (attempts_of_two(4), 0.05),
    "normal": (lambda random, shape: random.normal(0.1, 1.0, shape), 0.1),
    "skewed": (lambda random, shape: random.exponential(size=shape) - 0.5, 0.5),
}


def coverage_of_difference(case: str, count: int, samples: int) -> tuple[float, float]:
    """Return the coverage among samples with enough differences, and the share of those."""
    draw, truth = DIFFERENCES[case]
    values = draw(np.random.default_rng(count), (samples, count))
    enough = values[(values != 0).sum(axis=1) >= MIN_DIFFERING]
    return float(resampled_holds(enough, truth).mean()), len(enough) / samples


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "count"),
    [
        *(("one attempt", 60), ("one attempt", 200)),
        *(("four attempts", 30), ("four attempts", 60), ("four attempts", 200)),
        *(("normal", 10), ("normal", 20), ("normal", 60), ("skewed", 60), ("skewed", 200)),
    ],
)
def test_intervals_of_differences_hold_them_in_93_to_97_of_100_samples(
    case: str, count: int
) -> None:
    coverage, share = coverage_of_difference(case, count, SAMPLES)
    print(f"{case}, {count} tasks: {coverage:.1%} of the {share:.1%} with enough differences")
    assert share > 0.98
    assert 0.93 <= coverage <= 0.97


def test_thirty_tasks_are_enough_for_the_interval_of_a_difference() -> None:
    coverage, _ = coverage_of_difference("four attempts", 30, 1000)
    assert 0.925 <= coverage <= 0.975


def has_ends(interval: Interval | None, holds: Callable[[float], bool]) -> bool:
    """Return whether a simulated interval ends where a real one does."""
    assert interval is not None
    near = 2e-3 * (interval.high - interval.low)
    inside = holds(interval.low + near) and holds(interval.high - near)
    return inside and not holds(interval.low - near) and not holds(interval.high + near)


@pytest.mark.parametrize("count", [6, 12, 65])
def test_simulated_intervals_of_means_are_the_real_ones(count: int) -> None:
    for case, (draw, _, range) in MEANS.items():
        (values,) = draw(np.random.default_rng(7), (1, count))
        if (case.endswith("no range") and count < MIN_DIFFERING) or len(set(values)) == 1:
            continue
        real = reward_interval(values.tolist(), range, values.tolist())
        sample = values[None]
        assert has_ends(real, lambda end: bool(reward_interval_holds(sample, end, range)[0])), case  # noqa: B023


@pytest.mark.parametrize("case", DIFFERENCES)
def test_simulated_intervals_of_differences_are_the_real_ones(case: str) -> None:
    sample = DIFFERENCES[case][0](np.random.default_rng(3), (1, 60))
    real = paired_interval(sample[0].tolist(), UNIT)
    assert has_ends(real, lambda end: bool(resampled_holds(sample, end)[0]))


def test_the_range_of_rewards_bounds_the_interval() -> None:
    assert reward_interval([], UNIT, []) is None
    alike = reward_interval([1.0] * 50, UNIT, [1.0] * 50)
    assert alike is not None
    assert (alike.high, math.isclose(alike.low, 0.951, abs_tol=1e-3)) == (1.0, True)
    penalties = reward_interval(
        [-1.0, *[0.0] * 5, *[-0.1 * n for n in range(10)]], ScoreRange(-math.inf, 0.0), [-1.0]
    )
    assert penalties is not None
    assert penalties.high <= 0.0
