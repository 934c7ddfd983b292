"""Two evaluations compared task by task.

    task    a: 1 0 0 0    b: 1 1 0 0    difference  0.25 ┐
    task    a: 0 0 0 0    b: 0 0 0 0    difference  0.00 ├ mean, interval from these differences
    task    a: 1 1 1 0    b: 1 1 1 1    difference  0.25 ┘

Easy and hard tasks differ far more than two models do on one of them, and that part cancels in the
differences: a paired interval can find what two separate ones hide.

The interval is that of a bootstrap over tasks: `paired_interval`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from agentfly.errors import ConfigError
from agentfly.observe.bootstrap import UNIT, paired_interval
from agentfly.observe.estimate import Interval, interval_text
from agentfly.observe.evaluation_metrics import Counting, Outcome, outcomes_by_key
from agentfly.types import Group, ScoreRange
from agentfly.types.trajectory import differ


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
        """Meaning of the difference in reward, in one sentence."""
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
            f"{second} and {first} can't be distinguished on {tasks}: the difference is "
            f"{found.value:+.3g}, and its 95% interval {ends} contains 0. {self._way_out()}"
        )

    def _way_out(self) -> str:
        interval, value = self.reward.interval, self.reward.value
        if interval is None or not differ(0.0, abs(value)):
            return "They may be equal, or there are too few tasks to see a difference."
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
        solved=_difference([_solved(b) - _solved(a) for a, b in pairs], UNIT),
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
