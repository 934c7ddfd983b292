"""Waiting for a coroutine from synchronous code: one event loop in a thread of its own.

Retrievers are synchronous, because most of them compute. Those that talk to servers share the HTTP
client of the engines, which is asynchronous, through this loop.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_starting = threading.Lock()


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the shared loop, and wait; it must have a deadline of its own.

    >>> async def two() -> int:
    ...     return 2
    >>> wait_for(two())
    2
    """
    with _starting:  # Many threads ask at once; one of them starts the loop.
        loop = _loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(work, loop).result()


@cache
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """Start the loop. A forked process has no thread of its parent's, so each has its own."""
    del pid
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="agentfly:search", daemon=True).start()
    return loop
