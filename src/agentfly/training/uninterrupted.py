"""Work in a thread that is seen through to its end, even when its waiter is cancelled."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def uninterrupted(function: Callable[[], T], thread: ThreadPoolExecutor) -> T:
    """Run a function to its end off the event loop.

    A cancelled waiter goes on waiting: half an update would leave weights that belong to no step.
    The cancellation is delivered at the await after this one.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    future = loop.run_in_executor(thread, function)
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            task.uncancel()
            cancelled = True
    if cancelled:
        loop.call_soon(task.cancel)
    return future.result()
