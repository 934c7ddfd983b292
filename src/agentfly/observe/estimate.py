"""What a number measured on a few tasks says of all such tasks: means, pass@k, intervals.

Chains of one task succeed or fail together more often than chains of different tasks, so the unit
of every interval is the task: its chains are averaged first.

    task a: 1 1 1 0    0.75 ┐
    task b: 0 0 0 0    0.00 ├ mean 0.50, interval from these three numbers, not from twelve
    task c: 1 1 1 0    0.75 ┘
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where the true value lies, in 95 of 100 such measurements."""

    low: float
    high: float


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; of nothing it is None, which is not 0."""
    return fmean(values) if values else None


def pass_at_k(solved: int, tried: int, k: int) -> float:
    """Return the chance that at least one of k attempts solves a task of which `solved` did.

    The unbiased estimator of arXiv:2107.03374: one minus the share of draws of k attempts, out of
    those made, in which all failed.

    >>> pass_at_k(1, 4, 2)
    0.5
    """
    if not 1 <= k <= tried:
        raise ValueError(f"pass@{k} needs at least {k} attempts, got {tried}")
    return 1.0 - math.comb(tried - solved, k) / math.comb(tried, k)


def wilson_interval(successes: float, trials: int) -> Interval | None:
    """Return Wilson's interval of a share: it stays within 0 and 1, and is wide for few trials.

    With one trial per task, `successes` may be the sum of each task's solved share.

    >>> wilson_interval(10, 10)
    Interval(low=0.7224..., high=1.0)
    """
    if trials == 0:
        return None
    z, share = NormalDist().inv_cdf((1 + CONFIDENCE) / 2), successes / trials
    weight = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / weight
    spread = z / weight * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return Interval(low=max(0.0, centre - spread), high=min(1.0, centre + spread))


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return Student's interval of a mean, from one value per task; one task alone has none.

    >>> mean_interval([1.0, 2.0, 3.0])
    Interval(low=-0.484..., high=4.484...)
    """
    if len(values) < 2:
        return None
    spread = _student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(low=fmean(values) - spread, high=fmean(values) + spread)


def _student(freedom: int) -> float:
    """Return the two-sided quantile of Student's distribution.

    Exact for 1 and 2 degrees of freedom; beyond, the expansion around the normal quantile
    (Abramowitz and Stegun 26.7.5), within 0.2 % of the truth.
    """
    tail = (1 + CONFIDENCE) / 2
    if freedom == 1:
        return math.tan(math.pi * (tail - 0.5))
    if freedom == 2:
        return (2 * tail - 1) * math.sqrt(2 / (4 * tail * (1 - tail)))
    z = NormalDist().inv_cdf(tail)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))
