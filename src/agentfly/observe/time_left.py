"""Estimate of the time that the remaining chains take: a range, since one number would claim more.

The rate at which chains have ended is known within the noise of a count: after 16 of them only to
about a half, after 400 to a tenth. Chains end last that take longest, so the longest one seen is
added to the upper end.
"""

import math
from dataclasses import dataclass

MIN_ENDED = 8
"""Chains that must have ended before there is an estimate."""
SPREAD = 1.96
"""Standard errors of a count on each side."""


@dataclass(slots=True)
class TimeLeft:
    """Counts of chains, and the time that they took."""

    total: int
    ended: int = 0
    longest: float = 0.0
    """Seconds of the longest chain."""

    def chain_ended(self, seconds: float) -> None:
        """Count a chain that took this many seconds."""
        self.ended += 1
        self.longest = max(self.longest, seconds)

    def estimate(self, elapsed: float) -> tuple[float, float] | None:
        """Return the least and the most seconds left; None while too few chains have ended.

        >>> left = TimeLeft(total=400, ended=100, longest=4.0)
        >>> [round(seconds) for seconds in left.estimate(60.0)]
        [151, 228]
        """
        if self.ended < MIN_ENDED:
            return None
        left = self.total - self.ended
        noise = SPREAD * math.sqrt(self.ended)
        fast, slow = self.ended + noise, max(self.ended - noise, 1.0)
        return left * elapsed / fast, left * elapsed / slow + (self.longest if left else 0.0)

    def text(self, elapsed: float) -> str:
        """Return the estimate for people.

        >>> TimeLeft(total=400, ended=100, longest=4.0).text(60.0)
        '2:30 to 3:47 left'
        """
        found = self.estimate(elapsed)
        if found is None:
            return "time left not known yet"
        return f"{minutes(found[0])} to {minutes(found[1])} left"


def minutes(seconds: float) -> str:
    """Return a time for people.

    >>> minutes(75.0), minutes(3725.0)
    ('1:15', '1:02:05')
    """
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    short = f"{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
    return f"{hours}:{short}" if hours else short
