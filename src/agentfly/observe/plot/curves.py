"""The numbers of a plot, read from a run's metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from agentfly.errors import ConfigError
from agentfly.observe.trackers.metrics_file import MetricsRecord

WINDOW = 5
"""Steps that are averaged in the smoothed curve, the step itself in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The reward at a step, and its interval where it has one."""

    step: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What is drawn."""

    training: tuple[Point, ...]
    smoothed: tuple[Point, ...]
    held_out: tuple[Point, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """All points of all curves."""
        return self.training + self.smoothed + self.held_out


def read_curves(records: Sequence[MetricsRecord]) -> Curves:
    """Read the rewards of a run; records without them are passed over."""
    training = tuple(
        Point(step=record.step, value=record.metrics["reward/mean"])
        for record in records
        if "reward/mean" in record.metrics
    )
    held_out = tuple(_held_out(record) for record in records if "eval/reward" in record.metrics)
    if not training and not held_out:
        raise ConfigError(
            "there is no reward to plot: no record has `reward/mean` or `eval/reward`. "
            "Run at least one step first"
        )
    return Curves(training=training, smoothed=_smoothed(training), held_out=held_out)


def _held_out(record: MetricsRecord) -> Point:
    return Point(
        step=record.step,
        value=record.metrics["eval/reward"],
        low=record.metrics.get("eval/reward_low"),
        high=record.metrics.get("eval/reward_high"),
    )


def _smoothed(points: Sequence[Point]) -> tuple[Point, ...]:
    """Average each point with its neighbors; at the ends with fewer, as many on either side."""
    last = len(points) - 1
    smoothed = []
    for index, point in enumerate(points):
        reach = min(WINDOW // 2, index, last - index)
        near = points[index - reach : index + reach + 1]
        smoothed.append(Point(step=point.step, value=fmean(p.value for p in near)))
    return tuple(smoothed)
