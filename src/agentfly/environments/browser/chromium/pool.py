"""The browsers of this process, and the choice of one for the next chain."""

import asyncio
import atexit
import os
import time
from functools import cache

from agentfly.environments.browser.chromium.browser import Browser
from agentfly.environments.browser.chromium.memory import PageMemory
from agentfly.runtime.background import call_later, in_background

CONTEXTS_PER_BROWSER = 16
"""Number of contexts from which a browser is full: all of them share its main process."""
MAX_BROWSERS = 4
"""Maximum number of browsers. When all are full, they take more contexts each."""
IDLE_SECONDS = 120.0
"""Time that a browser without contexts is kept: training steps use none for minutes."""
CLOSE_SECONDS = 20.0
"""Time limit of waiting for their end when this process exits."""


class BrowserPool:
    """Browsers that are started when needed and ended when idle, on the background event loop."""

    def __init__(self) -> None:
        self._browsers: list[Browser] = []
        self._memory = PageMemory()

    @property
    def browsers(self) -> tuple[Browser, ...]:
        """Living browsers."""
        self._browsers = [one for one in self._browsers if one.lost is None]
        return tuple(self._browsers)

    def acquire(self, *, headed: bool = False) -> Browser:
        """Return the browser for one more context: the one with the fewest, or a new one."""
        living = [one for one in self.browsers if one.headed == headed]
        emptiest = min(living, key=lambda one: one.leased, default=None)
        full = emptiest is None or emptiest.leased >= CONTEXTS_PER_BROWSER
        if emptiest is None or (full and len(living) < MAX_BROWSERS):
            emptiest = Browser(self._memory, headed=headed)
            self._browsers.append(emptiest)
        emptiest.leased += 1
        return emptiest

    def release(self, browser: Browser) -> None:
        """Note that a context has left its browser."""
        browser.leased -= 1
        if browser.leased == 0 and browser.lost is None:
            browser.idle_since = since = time.monotonic()
            call_later(IDLE_SECONDS, lambda: _end_idle(browser, since))

    async def close(self) -> None:
        """End all browsers, and wait for it."""
        ending = self.browsers
        for browser in ending:
            browser.end("the browsers were closed")
        async with asyncio.timeout(CLOSE_SECONDS):
            for browser in ending:
                await browser.wait()


def _end_idle(browser: Browser, since: float) -> None:
    # Another context may have come since, and left again later.
    if browser.leased == 0 and browser.idle_since == since:
        browser.end("the browser was idle")


def browser_pool() -> BrowserPool:
    """Return the pool of this process."""
    return _browser_pool(os.getpid())


@cache
def _browser_pool(pid: int) -> BrowserPool:
    """Make the pool of a process. A forked process makes its own; its parent keeps the browsers."""
    made = BrowserPool()

    def close() -> None:
        if os.getpid() == pid:
            in_background(made.close()).result(CLOSE_SECONDS)

    atexit.register(close)
    return made
