"""Estimates against numbers from tables and from counting."""

import math
import operator
import random
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfly.observe import estimate
from agentfly.types import ScoreRange


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
    values = [10.0, 12.0] * freedom
    values = values[: freedom + 1]
    interval = estimate.mean_interval(values)
    assert interval is not None
    middle = fmean(values)
    spread = math.sqrt(sum((v - middle) ** 2 for v in values) / freedom)
    half = quantile * spread / math.sqrt(freedom + 1)
    assert interval.high - middle == pytest.approx(half, rel=2e-3)
    assert middle - interval.low == pytest.approx(half, rel=2e-3)


def test_one_value_alone_has_no_interval_where_the_range_is_not_known() -> None:
    assert estimate.mean_interval([]) is None
    assert estimate.mean_interval([1.5]) is None
    assert estimate.mean_interval([-3.0], ScoreRange(-math.inf, 1.0)) is None


def beta_quantile(a: int, b: int, share: float) -> float:
    """Find the quantile of a beta distribution by its binomial tail."""
    n, low, high = a + b - 1, 0.0, 1.0
    for _ in range(60):
        x = (low + high) / 2
        tail = math.fsum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
        low, high = (x, high) if tail < share else (low, x)
    return low


@pytest.mark.parametrize(
    ("ones", "count"), [(0, 1), (1, 1), (1, 2), (0, 3), (3, 10), (10, 10), (5, 40), (190, 200)]
)
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(ones: int, count: int) -> None:
    interval = estimate.mean_interval([1.0] * ones + [0.0] * (count - ones), ScoreRange(0, 1))
    assert interval is not None
    low = 0.0 if ones == 0 else beta_quantile(ones, count - ones + 1, 0.025)
    high = 1.0 if ones == count else beta_quantile(ones + 1, count - ones, 0.975)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-4)


def test_in_between_it_is_that_of_random_weights() -> None:
    draw, values = random.Random(0), [0.0, 0.25, 0.25, 0.5, 1.0]

    def weighted(*all_values: float) -> float:
        weights = [draw.expovariate(1.0) for _ in all_values]
        return math.fsum(map(operator.mul, weights, all_values)) / math.fsum(weights)

    lows = sorted(weighted(*values, -1.0) for _ in range(40_000))
    highs = sorted(weighted(*values, 2.0) for _ in range(40_000))
    interval = estimate.mean_interval(values, ScoreRange(-1, 2))
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((lows[1000], highs[39_000]), abs=0.02)


REWARDS = st.floats(-5, 5).map(lambda value: round(value, 3))
ENDS = st.tuples(st.sampled_from([-math.inf, -5.0, -6.5]), st.sampled_from([5.0, 8.0, math.inf]))


@given(values=st.lists(REWARDS | st.sampled_from([0.0, 1.0]), min_size=2, max_size=30), ends=ENDS)
def test_it_stays_within_the_range_and_always_has_a_width(
    values: list[float], ends: tuple[float, float]
) -> None:
    interval = estimate.mean_interval(values, ScoreRange(*ends))
    assert interval is not None
    assert ends[0] <= interval.low <= fmean(values) + 1e-9
    assert fmean(values) - 1e-9 <= interval.high <= ends[1]
    assert interval.low < interval.high


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_values_from_0_to_1_are_taken_to_be_of_such_a_reward(values: list[float]) -> None:
    interval = estimate.mean_interval(values)
    assert interval is not None
    assert 0 <= interval.low < interval.high <= 1


@pytest.mark.parametrize(
    ("values", "range"),
    [
        ([0.0, 0.0, 0.0], ScoreRange(-math.inf, 0.0)),
        ([1.0, 1.0], ScoreRange(1.0, math.inf)),
        ([0.5, 0.5], ScoreRange(0.5, math.inf)),
    ],
)
def test_values_at_the_only_known_end_of_a_range(values: list[float], range: ScoreRange) -> None:
    """A penalty of 0 each time does not prove that there never is one."""
    found = estimate.mean_interval(values, range)
    assert found is not None
    assert range.low <= found.low < found.high <= range.high


def test_values_that_differ_by_rounding_alone_are_equal() -> None:
    found = estimate.mean_interval([3.0, math.nextafter(3.0, 4.0)])
    assert found is not None
    assert found.high - found.low > 1.0


def test_many_different_values_are_rounded_outwards() -> None:
    values = [index / 2000 for index in range(2001)]
    interval = estimate.mean_interval(values, ScoreRange(0, 1))
    assert interval is not None
    half = 1.96 * math.sqrt(1 / 12 / len(values))
    assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half), abs=3e-3)


def test_an_interval_is_written_with_as_many_digits_as_it_takes() -> None:
    assert estimate.interval_text(0.25, 0.75) == "[0.25, 0.75]"
    assert estimate.interval_text(0.99963, 1.0) == "[0.9996, 1.0000]"
    assert estimate.interval_text(0.996, 1.0, "{:.0%}") == "[99.6%, 100.0%]"
