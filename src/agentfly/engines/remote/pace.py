"""So many requests a minute."""

from agentfly.errors import DeadlineError
from agentfly.runtime.clock import in_seconds
from agentfly.types import Clock


class Pace:
    """Lets requests go one by one, evenly spread; they go in the order in which they came."""

    def __init__(self, requests_per_minute: float | None, clock: Clock) -> None:
        self._rate = requests_per_minute
        self._clock = clock
        self._next = 0.0

    async def turn(self, deadline: float) -> None:
        """Wait for a turn; take none that would come after the deadline."""
        if self._rate is None:
            return
        now = self._clock.now()
        start = max(now, self._next)
        if start > deadline:
            raise DeadlineError(
                f"the limit of {self._rate:g} requests a minute leaves no turn for "
                f"another {in_seconds(start - now)}, after the deadline. Raise the limit, or "
                "lower the number of chains at once"
            )
        self._next = start + 60.0 / self._rate
        if start > now:
            await self._clock.sleep(start - now)
