"""Estimates against numbers from tables and from counting."""

import math
from itertools import combinations
from statistics import fmean

import pytest

from agentfly.observe import estimate


def test_a_mean_of_nothing_is_none() -> None:
    assert estimate.mean([]) is None
    assert estimate.mean([1.0, 2.0]) == 1.5


@pytest.mark.parametrize("tried", range(1, 7))
def test_pass_at_k_is_what_counting_all_draws_gives(tried: int) -> None:
    for solved in range(tried + 1):
        attempts = [True] * solved + [False] * (tried - solved)
        for k in range(1, tried + 1):
            draws = [any(draw) for draw in combinations(attempts, k)]
            assert estimate.pass_at_k(solved, tried, k) == pytest.approx(fmean(draws))


def test_pass_at_k_needs_k_attempts() -> None:
    with pytest.raises(ValueError, match="pass@5 needs at least 5 attempts, got 4"):
        estimate.pass_at_k(1, 4, 5)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # by hand with z = 1.959964, rounded
        (0, 10, 0.0, 0.27753),
        (5, 10, 0.23659, 0.76341),
        (10, 10, 0.72247, 1.0),
        (1, 1, 0.20655, 1.0),
        (81, 263, 0.25523, 0.36623),
    ],
)
def test_wilson(successes: int, trials: int, low: float, high: float) -> None:
    interval = estimate.wilson_interval(successes, trials)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-4)


def test_wilson_of_nothing() -> None:
    assert estimate.wilson_interval(0, 0) is None


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    # from a printed table of Student's distribution, two-sided 95 %
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (10, 2.228),
        (30, 2.042),
        (120, 1.980),
    ],
)
def test_student(freedom: int, quantile: float) -> None:
    values = [0.0, 1.0] * freedom
    values = values[: freedom + 1]
    interval = estimate.mean_interval(values)
    assert interval is not None
    middle = fmean(values)
    spread = math.sqrt(sum((v - middle) ** 2 for v in values) / freedom)
    half = quantile * spread / math.sqrt(freedom + 1)
    assert interval.high - middle == pytest.approx(half, rel=2e-3)
    assert middle - interval.low == pytest.approx(half, rel=2e-3)


def test_one_value_alone_has_no_interval() -> None:
    assert estimate.mean_interval([0.5]) is None
