"""Awaiting several things at once."""

from asyncio import Task, TaskGroup
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


async def in_order(awaitables: Sequence[Awaitable[T]]) -> tuple[T, ...]:
    """Await all at once and return their results in order; one failure cancels the others."""
    if len(awaitables) == 1:
        return (await awaitables[0],)
    tasks: list[Task[T]] = []
    with one_error():
        async with TaskGroup() as group:
            tasks += [group.create_task(_awaited(awaitable)) for awaitable in awaitables]
    return tuple(task.result() for task in tasks)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


@contextmanager
def one_error() -> Iterator[None]:
    """Let the first error of a task group come out as itself, so that callers can name its type."""
    try:
        yield
    except BaseExceptionGroup as group:
        first = _first(group)
        raise first from first.__cause__


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
