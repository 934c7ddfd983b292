"""Time limits of pages that don't count the time in which a page gets no processor.

A page that does not answer runs a long script, waits for something, or has to wait for a processor
of a crowded machine, which is not its fault. While it is waited for, its thread is asked two
questions again and again. Only a free thread answers the first one; the second one, how much
processor time the thread has used, is answered in the middle of a script too:

    thread           first      second     what counts
    free             answered   answered   the time on the clock
    in a script      open       answered   its processor time
    not running      open       open       nothing, for at most STARVED_SECONDS
"""

import asyncio
from collections.abc import Awaitable, Callable

from agentfly.environments.browser.chromium.connection import Params

CHECK_SECONDS = 0.25
"""Interval of the questions; a page that answers sooner is asked nothing."""
STARVED_SECONDS = 30.0
"""Time that a page may do nothing in addition to its limit, because it gets no processor."""

_FREE = "Runtime.getIsolateId"
_METRICS = "Performance.getMetrics"

Ask = Callable[[str], asyncio.Future[Params]]
"""Sends a method to the page's thread; its failure needs no attention."""


class PageClock:
    """The time that a page takes for one answer."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._deadline = asyncio.get_running_loop().time() + STARVED_SECONDS
        self._free: asyncio.Future[Params] | None = None
        self._metrics: asyncio.Future[Params] | None = None
        self._thread_seconds: float | None = None

    async def within(self, seconds: float, wait: Callable[[], Awaitable[object]]) -> bool:
        """Wait for something; return whether it came before the page had taken this long.

        Args:
            seconds: The page's limit.
            wait: Begins to wait; it is cancelled and called again at every check.
        """
        loop, taken = asyncio.get_running_loop(), 0.0
        self._deadline = max(self._deadline, loop.time()) + seconds
        while taken < seconds and loop.time() < self._deadline:
            began = loop.time()
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await wait()
                return True
            except TimeoutError:
                taken += self._counted(loop.time() - began)
        return False

    def _counted(self, passed: float) -> float:
        """Return how much of the time since the last check counts, and ask again."""
        busy = self._busy_seconds(passed)
        if self._free is not None and not self._free.done():
            return busy
        known, self._free = self._free is not None, self._ask(_FREE)
        return passed if known else 0.0

    def _busy_seconds(self, passed: float) -> float:
        if self._metrics is not None and not self._metrics.done():
            return 0.0
        asked, before = self._metrics, self._thread_seconds
        self._metrics = self._ask(_METRICS)
        if asked is None:
            return 0.0
        self._thread_seconds = _thread_seconds(asked)
        if self._thread_seconds is None:
            return passed
        # The first answer is only the beginning, and another process begins at zero.
        return 0.0 if before is None else max(0.0, self._thread_seconds - before)


def _thread_seconds(answer: asyncio.Future[Params]) -> float | None:
    """Return the processor time of a page's thread; None if this Chromium does not report it."""
    if answer.cancelled() or answer.exception() is not None:
        return None
    metrics = {one["name"]: one["value"] for one in answer.result().get("metrics", ())}
    return metrics.get("ThreadTime")
