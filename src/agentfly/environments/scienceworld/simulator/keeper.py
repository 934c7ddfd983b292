"""The thread in which this process's JVMs live: they are in nobody's event loop.

The kernel ends a child process with the thread that started it, and those of the callers come and
go; this one stays to the end of the process.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any


def in_keeper(work: Coroutine[Any, Any, None]) -> Future[None]:
    """Run a coroutine there."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid()))


def later(seconds: float, work: Callable[[], None]) -> None:
    """Call a function there after a while."""
    loop = _loop(os.getpid())
    loop.call_soon_threadsafe(loop.call_later, seconds, work)


@cache
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """Start the loop. A forked process has no thread of its parent's, so each has its own."""
    del pid
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="agentfly:scienceworld", daemon=True).start()
    return loop
