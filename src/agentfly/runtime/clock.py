"""The clock of the running event loop."""

import asyncio
import math


class LoopClock:
    """Real time in a real event loop, virtual time in a virtual one.

    `agentfly.testing.run_in_virtual_time` gives the latter.
    """

    def now(self) -> float:
        """Return the loop's monotonic time in seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking others."""
        await asyncio.sleep(seconds)

    def timeout_at(self, deadline: float) -> asyncio.Timeout:
        """Raise TimeoutError in the body if it is still running at `deadline`."""
        return asyncio.timeout_at(None if deadline == math.inf else deadline)


def in_seconds(seconds: float) -> str:
    """Write a duration for a message.

    >>> in_seconds(0.25), in_seconds(2.0), in_seconds(6000.4)
    ('0.25 s', '2 s', '6,000 s')
    """
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"
