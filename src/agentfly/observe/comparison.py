"""Two evaluations compared task by task.

    task    a: 1 0 0 0    b: 1 1 0 0    difference  0.25 ┐
    task    a: 0 0 0 0    b: 0 0 0 0    difference  0.00 ├ mean, interval from these differences
    task    a: 1 1 1 0    b: 1 1 1 1    difference  0.25 ┘

Easy and hard tasks differ far more than two models do on one of them, and that part cancels in the
differences: a paired interval can find what two separate ones hide.

The interval is that of a bootstrap: tasks are drawn again, with replacement, and their mean
difference is computed each time. Its ends are the quantiles of these means, at levels widened for
small samples (Hesterberg, "What Teachers Should Know About the Bootstrap", 2015). Where fewer than
ten tasks differ at all there is too little to draw from, and the interval is the wider one of
`estimate`.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

from agentfly.errors import ConfigError
from agentfly.observe.estimate import Interval, interval_text, mean_interval, student_quantile
from agentfly.observe.evaluation_metrics import Counting, Outcome, outcomes_by_key
from agentfly.types import Group, ScoreRange
from agentfly.types.trajectory import differ

MIN_DIFFERING = 10
"""Tasks with a difference from which on the bootstrap is used."""
RESAMPLES = 4000
MAX_DRAWS = 4_000_000
"""Bound on the work: with many tasks, fewer samples are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Mean over tasks of what the second evaluation has more than the first."""

    value: float
    interval: Interval | None
    tasks: int
    better: int
    """Tasks on which the second is better."""
    worse: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        found = self.interval
        return found is not None and (found.low > 0 or found.high < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two evaluations on the tasks that both have attempted."""

    names: tuple[str, str]
    means: tuple[float, float]
    """Mean reward of each, on the tasks of both."""
    reward: Difference
    solved: Difference
    only: tuple[int, int]
    """Tasks that only the first has, and only the second."""

    @property
    def sentence(self) -> str:
        """What the difference in reward means, in one sentence."""
        found, (first, second) = self.reward, self.names
        size = f"{abs(found.value):.3g}"
        tasks = f"the same {found.tasks} tasks"
        if found.interval is None:
            return f"One task says nothing about the difference between {first} and {second}."
        ends = interval_text(found.interval.low, found.interval.high, "{:+.3f}")
        if found.is_clear:
            more = "more" if found.value > 0 else "less"
            return (
                f"{second} earns {size} {more} than {first} on {tasks}, 95% interval {ends}: a "
                "difference that chance does not explain."
            )
        return (
            f"{second} and {first} can't be told apart on {tasks}: the difference is "
            f"{found.value:+.3g}, and its 95% interval {ends} holds 0. {self._way_out()}"
        )

    def _way_out(self) -> str:
        interval, value = self.reward.interval, self.reward.value
        if interval is None or not differ(0.0, abs(value)):
            return "They may be equal, or the tasks too few to tell."
        half = (interval.high - interval.low) / 2
        needed = math.ceil(self.reward.tasks * (half / abs(value)) ** 2)
        return f"If it is real, about {needed} tasks, or more chains of each, would show it."


def compare_groups(
    first: Sequence[Group],
    second: Sequence[Group],
    *,
    names: tuple[str, str],
    counting: Counting,
) -> Comparison:
    """Compare the groups of two evaluations, paired by task.

    Raises:
        ConfigError: They have no task in common.
    """
    one, other = outcomes_by_key(counting, first), outcomes_by_key(counting, second)
    both = [key for key in one if key in other]
    if not both:
        raise ConfigError(
            f"{names[0]} and {names[1]} have no task in common: a comparison is made task by task. "
            "Evaluate both on the same tasks"
        )
    pairs = [(one[key], other[key]) for key in both]
    range = counting.range_of({source for source, _, _ in both})
    return Comparison(
        names=names,
        means=(
            fmean(_reward(pair[0]) for pair in pairs),
            fmean(_reward(pair[1]) for pair in pairs),
        ),
        reward=_difference([_reward(b) - _reward(a) for a, b in pairs], range),
        solved=_difference([_solved(b) - _solved(a) for a, b in pairs], ScoreRange(0.0, 1.0)),
        only=(len(one) - len(both), len(other) - len(both)),
    )


def _reward(outcomes: Sequence[Outcome]) -> float:
    return fmean(one.reward for one in outcomes)


def _solved(outcomes: Sequence[Outcome]) -> float:
    return fmean(float(one.solved) for one in outcomes)


def _difference(differences: Sequence[float], range: ScoreRange) -> Difference:
    return Difference(
        value=fmean(differences),
        interval=paired_interval(differences, range),
        tasks=len(differences),
        better=sum(value > 0 and differ(0.0, value) for value in differences),
        worse=sum(value < 0 and differ(0.0, -value) for value in differences),
    )


def paired_interval(differences: Sequence[float], range: ScoreRange) -> Interval | None:
    """Return the interval of a mean difference, from one difference for each task.

    Args:
        differences: Of two means of rewards, or of two shares.
        range: Range of the rewards themselves.
    """
    differing = sum(differ(0.0, abs(value)) for value in differences)
    if differing >= MIN_DIFFERING and stdev(differences) > 0:
        return bootstrap_interval(differences)
    width = range.high - range.low
    if not math.isfinite(width):
        width = max(1.0, *(abs(value) for value in differences))
    return mean_interval(differences, ScoreRange(-width, width))


def bootstrap_interval(values: Sequence[float]) -> Interval:
    """Return the interval of a mean by a bootstrap over tasks, from one value for each task."""
    count = len(values)
    samples = max(500, min(RESAMPLES, MAX_DRAWS // count))
    draw = random.Random(0).choices  # the same interval for the same differences
    means = sorted(math.fsum(draw(values, k=count)) / count for _ in [None] * samples)
    # Quantiles of a bootstrap are too near by the factor √((n-1)/n), and by normal for Student's.
    tail = NormalDist().cdf(-math.sqrt(count / (count - 1)) * student_quantile(count - 1))
    return Interval(low=_quantile(means, tail), high=_quantile(means, 1 - tail))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
