"""An event loop whose clock jumps to the next timer instead of waiting for it.

Hours of latency, deadlines and retries then pass in milliseconds, and always in the same order.
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentfly.runtime.threads import shared_threads

T = TypeVar("T")

REAL_WAIT_SECONDS = 30.0
"""Real time to wait for a thread or a socket, with no timer ahead, before reporting a deadlock."""


THREAD_SECONDS = 1.0
"""Real time that a synchronous function may take before the clock advances without it."""


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time and return its result.

    >>> import asyncio
    >>> run_in_virtual_time(asyncio.sleep(3600, "an hour later"))
    'an hour later'
    """
    selector = _JumpingSelector()
    loop = _VirtualLoop(selector)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the clock to the next timer instead of sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if ready := self._wait_for_threads():
            return ready
        if timeout is not None:
            self.now += timeout
            return ready
        ready = super().select(REAL_WAIT_SECONDS)
        if not ready:
            raise RuntimeError("deadlock: every task waits, and no timer is ahead")
        return ready

    def _wait_for_threads(self) -> Any:
        """Wait in real time for functions in threads, which take no virtual time."""
        give_up_at = time.monotonic() + THREAD_SECONDS
        while shared_threads().busy and time.monotonic() < give_up_at:
            if ready := super().select(0.01):
                return ready
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _JumpingSelector) -> None:
        self._jumping = selector
        super().__init__(selector)
        # A timer must fire in the very step that the clock was moved to it.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jumping.now
