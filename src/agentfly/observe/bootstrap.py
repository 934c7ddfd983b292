"""Intervals by a bootstrap over tasks: of a mean, of a share, of a paired difference.

All of them ask how much the mean varies when the tasks get other weights. Which one is used:

    mean, range known       fewer than 60 tasks, or fewer than 10 that differ: `smoothed_interval`
                            otherwise                                          `resampled_interval`
    mean, range unknown     10 tasks or more: `studentized_interval`; fewer: Student's
    paired difference       10 tasks or more that differ: `resampled_interval`; fewer: Gaffke's

In simulations 93 to 97% of them hold the truth, also with few tasks and skewed rewards:
`tests/observe/test_bootstrap_coverage.py`. Where hardly any task differs from the others they are
wider than that, because there is too little to learn the spread from.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import NormalDist, fmean, stdev

from agentfly.observe.estimate import (
    TAIL,
    Interval,
    known_range,
    mean_interval,
    student_quantile,
    weighted_quantile,
    wilson_interval,
)
from agentfly.types import ScoreRange
from agentfly.types.trajectory import differ

MIN_TASKS = 60
"""Tasks from which on drawing them again shows their spread, also for skewed rewards."""
MIN_DIFFERING = 10
"""Tasks that differ from the others, from which on they can be drawn again."""
RESAMPLES = 4000
MAX_DRAWS = 4_000_000
"""Bound on the work: with many tasks, fewer samples are drawn."""
UNIT = ScoreRange(0.0, 1.0)


def reward_interval(
    means: Sequence[float], range: ScoreRange, rewards: Sequence[float]
) -> Interval | None:
    """Return the interval of a mean reward; None where the tasks say nothing about it.

    Args:
        means: Mean reward of each task.
        range: Range of the reward.
        rewards: Rewards of all chains; they tell the range where the reward does not.
    """
    if not means:
        return None
    known = known_range(rewards, range)
    differing = len(means) - max(Counter(means).values())
    if all(map(math.isfinite, known)):
        if len(means) >= MIN_TASKS and differing >= MIN_DIFFERING:
            return resampled_interval(means)
        return smoothed_interval(means, known)
    if differing + 1 >= MIN_DIFFERING:
        return _within(studentized_interval(means), known)
    return mean_interval(means, range, rewards=rewards)


def share_interval(shares: Sequence[float]) -> Interval | None:
    """Return the interval of a mean of shares, one for each task.

    Where every task was solved or not, the mean is itself a share, and the interval is Wilson's.
    """
    if all(share in (0.0, 1.0) for share in shares):
        return wilson_interval(sum(shares), len(shares))
    return smoothed_interval(shares, UNIT)


def paired_interval(differences: Sequence[float], range: ScoreRange) -> Interval | None:
    """Return the interval of a mean difference, from one difference for each task.

    Args:
        differences: Of two means of rewards, or of two shares.
        range: Range of the rewards themselves.
    """
    differing = sum(differ(0.0, abs(value)) for value in differences)
    if differing >= MIN_DIFFERING and stdev(differences) > 0:
        return resampled_interval(differences)
    width = range.high - range.low
    if not math.isfinite(width):
        width = max(1.0, *(abs(value) for value in differences))
    return mean_interval(differences, ScoreRange(-width, width))


def smoothed_interval(values: Sequence[float], range: ScoreRange) -> Interval:
    """Return the Bayesian bootstrap's interval, with half a task at each end of the range.

    Tasks get random weights that add up to 1, uniform over all such weights (Rubin, "The Bayesian
    Bootstrap", 1981). The two halves stand for values that were not drawn, so the width is never 0.
    Where every value is at an end of the range, the interval is Jeffreys'.

    >>> smoothed_interval([1.0, 1.0, 1.0, 1.0], ScoreRange(0, 1))
    Interval(low=0.555..., high=1.0)
    """
    low, width, middle = range.low, range.high - range.low, fmean(values)
    counts: Counter[float] = Counter(round((value - low) / width, 9) for value in values)
    weights = {**counts, 0.0: counts[0.0] + 0.5, 1.0: counts[1.0] + 0.5}
    return Interval(
        low=min(middle, low + width * weighted_quantile(weights, TAIL)),
        high=max(middle, low + width * weighted_quantile(weights, 1 - TAIL)),
    )


def resampled_interval(values: Sequence[float]) -> Interval:
    """Return the interval between quantiles of the means of tasks drawn with replacement.

    The quantiles are widened for small samples (Hesterberg, "What Teachers Should Know About the
    Bootstrap", 2015): they are too near by the factor √((n-1)/n), and by normal for Student's.
    """
    count = len(values)
    means = sorted(math.fsum(sample) / count for sample in _samples(values))
    tail = NormalDist().cdf(-math.sqrt(count / (count - 1)) * student_quantile(count - 1))
    return Interval(low=_quantile(means, tail), high=_quantile(means, 1 - tail))


def studentized_interval(values: Sequence[float]) -> Interval:
    """Return the bootstrap-t interval, which follows the skew of the values (Efron, 1981).

    The distances of drawn means from the mean, each over its own standard error, take the place of
    Student's distribution.
    """
    count, middle = len(values), fmean(values)
    centered, error = [value - middle for value in values], stdev(values) / math.sqrt(count)
    distances = []
    for sample in _samples(centered):
        drawn = math.fsum(sample) / count
        squares = math.fsum(value * value for value in sample) / count - drawn * drawn
        distances.append(drawn / math.sqrt(squares / (count - 1)) if squares > 0 else 0.0)
    distances.sort()
    return Interval(
        low=middle - _quantile(distances, 1 - TAIL) * error,
        high=middle - _quantile(distances, TAIL) * error,
    )


def _samples(values: Sequence[float]) -> Iterator[list[float]]:
    """Draw tasks with replacement, many times; the same ones in every call."""
    count, draw = len(values), random.Random(0).choices
    for _ in [None] * max(500, min(RESAMPLES, MAX_DRAWS // count)):
        yield draw(values, k=count)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _within(interval: Interval, range: ScoreRange) -> Interval:
    return Interval(low=max(interval.low, range.low), high=min(interval.high, range.high))
