"""Axes: what range they show, and at which numbers they have a tick."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentfly.observe.plot.curves import Curves


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A range of values on a range of pixels; upside down where `start` is the larger one.

    >>> axis = Axis(low=0.0, high=10.0, start=100.0, end=0.0)
    >>> axis.place(2.5), axis.ticks(5)
    (75.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, about: int) -> list[float]:
        """Return about so many round numbers within the range."""
        distance = _round_distance((self.high - self.low) / about)
        first, last = math.ceil(self.low / distance), math.floor(self.high / distance + 1e-9)
        return [round(count * distance, 10) for count in range(first, last + 1)]


def _round_distance(distance: float) -> float:
    """Return the next larger one of 1, 2, 5, 10, 20, 50, …, or of 0.1, 0.2, 0.5, …."""
    power = 10.0 ** math.floor(math.log10(distance))
    return next(d * power for d in (1, 2, 5, 10) if d * power >= distance * (1 - 1e-9))


def step_range(curves: Curves) -> tuple[float, float]:
    """Return the first and last step; a lone step gets some room."""
    steps = [point.step for point in curves.points]
    low, high = min(steps), max(steps)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def reward_range(curves: Curves) -> tuple[float, float]:
    """Return a range that always shows 0 to 1, and what lies beyond."""
    values = [point.value for point in curves.points]
    low, high = _beyond(values)
    room = 0.03 * (high - low)
    return low - room, high + room


def _beyond(values: Sequence[float]) -> tuple[float, float]:
    return min(0.0, *values), max(1.0, *values)
