"""One event loop per process in a daemon thread, for synchronous tools and child processes.

Synchronous tools wait here for coroutines, such as HTTP requests. Long-lived child processes
(sandbox servers, JVMs) are started here: the kernel kills a child when the thread that started it
ends (PR_SET_PDEATHSIG), and the threads of callers come and go.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_starting = threading.Lock()


def in_background(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine in the background loop; return its future at once."""
    return asyncio.run_coroutine_threadsafe(work, _own_loop())


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the background loop and wait; it must have a deadline of its own.

    >>> async def two() -> int:
    ...     return 2
    >>> run_blocking(two())
    2
    """
    return in_background(work).result()


def call_later(seconds: float, work: Callable[[], None]) -> None:
    """Call a function in the background loop after some seconds."""
    loop = _own_loop()
    loop.call_soon_threadsafe(loop.call_later, seconds, work)


def _own_loop() -> asyncio.AbstractEventLoop:
    with _starting:  # Many threads ask at once; one of them starts the loop.
        return _loop(os.getpid())


@cache
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """Start the loop. A forked process has no thread of its parent's, so each has its own."""
    del pid
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="agentfly:background", daemon=True).start()
    return loop
