"""The intervals of `agentfly.observe.bootstrap` for thousands of samples at once.

Each function says which of many samples have an interval that holds a value. They are written with
matrices, and a test compares their ends with those of the real functions.
"""

import math
import random
from collections import Counter
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agentfly.observe.bootstrap import MAX_DRAWS, MIN_DIFFERING, MIN_TASKS, RESAMPLES
from agentfly.observe.estimate import TAIL, student_quantile
from agentfly.types import ScoreRange

Samples = NDArray[np.float64]
Flags = NDArray[np.bool_]


def reward_interval_holds(samples: Samples, value: float, range: ScoreRange) -> Flags:
    """Return of which samples, one a row, `reward_interval` holds a value."""
    common = np.array([max(Counter(row).values()) for row in samples.tolist()])
    differing = samples.shape[1] - common
    if not all(map(math.isfinite, range)):
        assert (differing + 1 >= MIN_DIFFERING).all(), "Student's is not simulated here"
        return _studentized_holds(samples, value)
    large = (samples.shape[1] >= MIN_TASKS) & (differing >= MIN_DIFFERING)
    held = np.empty(len(samples), dtype=bool)
    held[large] = resampled_holds(samples[large], value) if large.any() else False
    held[~large] = _smoothed_holds(samples[~large], value, range)
    return held


def _smoothed_holds(samples: Samples, value: float, range: ScoreRange) -> Flags:
    """Return where a value is between the quantiles of the randomly weighted means."""
    width = range.high - range.low
    halves = np.broadcast_to([0.0, 1.0], (len(samples), 2))
    distances = np.hstack([(samples - range.low) / width, halves]) - (value - range.low) / width
    weights = np.array([1.0] * samples.shape[1] + [0.5, 0.5])
    distances /= np.sqrt((weights * distances**2).sum(axis=1, keepdims=True))
    below = np.full(len(samples), 0.5)
    nodes = 200
    for middle in (np.arange(nodes) + 0.5) / nodes:
        scaled = distances * (2 * middle / (1 - middle))
        angle = (weights * np.arctan(scaled)).sum(axis=1)
        damping = np.exp((weights * np.log1p(scaled**2)).sum(axis=1) / -2)
        below -= np.sin(angle) * damping / (nodes * middle * (1 - middle)) / math.pi
    means = samples.mean(axis=1)
    # The observed mean is always within the interval, and so is what lies between.
    low: Flags = (below >= TAIL) | (value >= means)
    high: Flags = (below <= 1 - TAIL) | (value <= means)
    return low & high


def resampled_holds(samples: Samples, value: float) -> Flags:
    """Return of which samples `resampled_interval` holds a value."""
    count = samples.shape[1]
    means = samples @ _weights(count)
    tail = NormalDist().cdf(-math.sqrt(count / (count - 1)) * student_quantile(count - 1))
    low, high = np.quantile(means, [tail, 1 - tail], axis=1)
    held: Flags = (low <= value) & (value <= high)
    return held


def _studentized_holds(samples: Samples, value: float) -> Flags:
    count, means = samples.shape[1], samples.mean(axis=1)
    centered = samples - means[:, None]
    drawn = centered @ _weights(count)
    spread = np.sqrt(((centered**2) @ _weights(count) - drawn**2) / (count - 1))
    low, high = np.quantile(drawn / spread, [TAIL, 1 - TAIL], axis=1)
    error = samples.std(axis=1, ddof=1) / math.sqrt(count)
    held: Flags = (means - high * error <= value) & (value <= means - low * error)
    return held


@cache
def _weights(count: int) -> Samples:
    """Return the weight of each task in each of the drawings of the real functions."""
    draw, places = random.Random(0).choices, range(count)
    drawings = max(500, min(RESAMPLES, MAX_DRAWS // count))
    found = [np.bincount(draw(places, k=count), minlength=count) for _ in range(drawings)]
    return np.array(found, dtype=float).T / count
