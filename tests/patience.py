"""Waiting in tests: for events, never for a time that a busy machine may not keep."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress

from agentfly.runtime.clock import LoopClock

PATIENCE = 300.0
"""Seconds after which something counts as hanging. A bound, not a claim about speed."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until a condition holds; raise TimeoutError if it never does."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - a thread or process can't set an event of the loop
            await asyncio.sleep(0.005)


def wait_until(holds: Callable[[], object]) -> None:
    """Block until a condition holds; raise TimeoutError if it never does."""
    give_up_at = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > give_up_at:
            raise TimeoutError("it never came true")
        time.sleep(0.01)


class HandMovedClock(LoopClock):
    """A clock whose deadlines pass when the test says so.

    A short real deadline may pass before the other side has even been reached.
    """

    def __init__(self) -> None:
        self._timeouts: list[asyncio.Timeout] = []

    def timeout_at(self, deadline: float) -> asyncio.Timeout:
        """Return a timeout that never ends by itself."""
        self._timeouts.append(super().timeout_at(math.inf))
        return self._timeouts[-1]

    def pass_deadlines(self) -> None:
        """End all timeouts that are running."""
        now = self.now()
        for timeout in self._timeouts:
            with suppress(RuntimeError):  # It has not begun, or is over.
                timeout.reschedule(now)
