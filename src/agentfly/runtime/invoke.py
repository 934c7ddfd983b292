"""Calling a user's function, sync or async, so that it neither blocks others nor hangs a chain."""

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from agentfly.errors import DeadlineError
from agentfly.runtime.threads import WorkerThreads, shared_threads
from agentfly.types import Clock

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
    threads: WorkerThreads | None = None,
) -> Any:
    """Call a function that takes no more arguments; raise DeadlineError at the deadline.

    A synchronous one runs in a thread. Whatever it raises comes through as it is, a TimeoutError of
    its own included.
    """
    started = clock.now()
    try:
        async with clock.timeout_at(deadline):
            # Inside, the deadline is seen as a cancellation: a TimeoutError is the function's own.
            try:
                return await _called(function, name, threads or shared_threads())
            except TimeoutError as error:
                own = error
    except TimeoutError as error:
        limit = deadline - started
        raise DeadlineError(f"{name} did not answer within {limit:.3g} s") from error
    raise own


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling it gives a coroutine, through partials and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    )


async def _called(function: Callable[[], Any], name: str, threads: WorkerThreads) -> Any:
    if is_async(function):
        return await _supervised(function(), name)
    result = await threads.run(function, name=name)
    # A plain function may still hand back a coroutine, for example a lambda around one.
    return await _supervised(result, name) if inspect.iscoroutine(result) else result


async def _supervised(coroutine: Coroutine[Any, Any, Any], name: str) -> Any:
    """Await a coroutine that may refuse to be cancelled, cancel itself or call `exit()`."""
    task = asyncio.get_running_loop().create_task(_contained(coroutine, name), name=name)
    # Cancelled before its first step, the task would leave the coroutine unawaited.
    task.add_done_callback(lambda _: coroutine.close())
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await _end(task)
        raise
    if task.cancelled():
        raise RuntimeError(f"{name} cancelled itself")
    return task.result()


async def _contained(coroutine: Coroutine[Any, Any, Any], name: str) -> Any:
    try:
        return await coroutine
    except SystemExit as error:
        raise RuntimeError(f"{name} raised SystemExit: {error}") from error


async def _end(task: asyncio.Task[Any]) -> None:
    _abandoned.add(task)
    task.add_done_callback(_forget)
    task.cancel()
    _, pending = await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if pending:
        _log.error("%s ignores its cancellation: abandoned, and still running", task.get_name())


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        # Fetched, so that asyncio doesn't complain of an exception that nobody waits for.
        task.exception()
