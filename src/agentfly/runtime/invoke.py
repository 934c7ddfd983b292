"""Calling a user's function, sync or async, so that it neither blocks others nor hangs a chain."""

import asyncio
import functools
import inspect
import logging
import math
import types
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agentfly.errors import DeadlineError
from agentfly.runtime.clock import in_seconds
from agentfly.runtime.threads import WorkerThreads, shared_threads
from agentfly.types import Clock

T = TypeVar("T")

GRACE_SECONDS = 1.0
"""A coroutine that swallows its cancellation for this long is abandoned, not waited for."""

_log = logging.getLogger(__name__)
_abandoned: set[asyncio.Task[Any]] = set()


async def invoke(
    function: Callable[[], Any],
    *,
    name: str,
    clock: Clock,
    deadline: float,
    seconds: float = math.inf,
    threads: WorkerThreads | None = None,
) -> Any:
    """Call a function that takes no more arguments; raise DeadlineError when its time is up.

    It may take `seconds` of its own, and none beyond `deadline`. A synchronous one runs in a
    thread, and waiting for a free thread is not its own time. Whatever it raises comes through as
    it is, a TimeoutError of its own included.
    """
    asked_at = clock.now()
    in_thread = not is_async(function)
    first = deadline if in_thread else min(deadline, asked_at + seconds)
    try:
        async with clock.timeout_at(first) as timeout:
            # Inside, the deadline is seen as a cancellation: a TimeoutError is the function's own.
            try:
                if not in_thread:
                    return await supervised(function(), name)
                on_start = functools.partial(_begin_own_time, timeout, clock, deadline, seconds)
                return await _in_thread(function, name, threads or shared_threads(), on_start)
            except TimeoutError as error:
                own = error
    except TimeoutError as error:
        limit = min(seconds, deadline - asked_at)
        raise DeadlineError(f"{name} did not answer within {in_seconds(limit)}") from error
    raise own


def _begin_own_time(
    timeout: asyncio.Timeout, clock: Clock, deadline: float, seconds: float
) -> None:
    """Count the function's own seconds from now on."""
    own_deadline = min(deadline, clock.now() + seconds)
    timeout.reschedule(None if own_deadline == math.inf else own_deadline)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling it gives a coroutine, through partials and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType) and code.co_flags & inspect.CO_COROUTINE:
        return True  # the usual case, without the detours of `inspect`
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    )


async def _in_thread(
    function: Callable[[], Any], name: str, threads: WorkerThreads, on_start: Callable[[], None]
) -> Any:
    result = await threads.run(function, name=name, on_start=on_start)
    # A plain function may still hand back a coroutine, for example a lambda around one.
    return await supervised(result, name) if inspect.iscoroutine(result) else result


async def supervised(awaitable: Awaitable[T], name: str) -> T:
    """Await foreign code that may refuse to be cancelled, cancel itself or call `exit()`."""
    loop = asyncio.get_running_loop()
    # A future of our own, because awaiting the task itself would pass a cancellation on to it.
    ended: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(_contained(awaitable, name, ended), name=name)
    try:
        await ended
    except asyncio.CancelledError:
        await _end(task, awaitable)
        raise
    if task.cancelled():
        raise RuntimeError(f"{name} cancelled itself")
    return task.result()


async def _contained(awaitable: Awaitable[T], name: str, ended: asyncio.Future[None]) -> T:
    try:
        return await awaitable
    except (Exception, asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # Such as `exit()`: foreign code must not end the whole program.
        raise RuntimeError(f"{name} raised {type(error).__name__}: {error}") from error
    finally:
        if not ended.done():
            ended.set_result(None)


async def _end(task: asyncio.Task[Any], awaitable: Awaitable[Any]) -> None:
    _abandoned.add(task)
    task.add_done_callback(functools.partial(_forget, awaitable))
    task.cancel()
    _, pending = await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if pending:
        _log.error("%s ignores its cancellation: abandoned, and still running", task.get_name())
        # Or `asyncio.run` would wait for it at its end, for ever.
        asyncio.tasks._unregister_task(task)


def _forget(awaitable: Awaitable[Any], task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if inspect.iscoroutine(awaitable):
        # Cancelled before its first step, the task has left the coroutine unawaited.
        awaitable.close()
    if not task.cancelled():
        # Fetched, so that asyncio doesn't complain about an exception that was never retrieved.
        task.exception()
