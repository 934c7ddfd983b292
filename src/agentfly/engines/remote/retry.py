"""Asking again what failed for a reason that may pass."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from agentfly.errors import ConfigError, EngineError
from agentfly.runtime.clock import in_seconds
from agentfly.types import Clock, Seed

T = TypeVar("T")

_log = logging.getLogger(__name__)


class UnavailableError(EngineError):
    """The server can't answer now: 429, 5xx, or a broken connection."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the server asked us to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and how patiently, to ask again.

    >>> [round(Retry().wait(failures, Seed(7)), 2) for failures in (1, 2, 3)]
    [0.28, 0.9, 1.61]
    """

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ConfigError(f"attempts must be at least 1, got {self.attempts}")

    def wait(self, failures: int, seed: Seed) -> float:
        """Return seconds to wait: doubled with each failure, and jittered over the upper half."""
        longest = min(self.longest_wait, self.first_wait * 2.0 ** (failures - 1))
        return longest * (0.5 + 0.5 * seed.child(failures).uniform())


ONCE = Retry(attempts=1)
"""For what must not be done twice."""

_another_can_answer: ContextVar[bool] = ContextVar("another_can_answer", default=False)


@contextmanager
def failing_over() -> Iterator[None]:
    """Give up at the first failure inside the block: another server stands ready to answer.

    A context variable, because the hint goes through whatever engines lie between, and the
    protocol of an engine need not know of it.

    >>> with failing_over():
    ...     unless_failing_over(Retry()).attempts
    1
    """
    token = _another_can_answer.set(True)
    try:
        yield
    finally:
        _another_can_answer.reset(token)


def unless_failing_over(retry: Retry) -> Retry:
    """Return the patience that is left to a server."""
    return ONCE if _another_can_answer.get() else retry


async def retrying(
    attempt: Callable[[], Awaitable[T]], *, retry: Retry, seed: Seed, clock: Clock, deadline: float
) -> T:
    """Repeat an attempt that raises UnavailableError, while attempts and time are left."""
    failures = 0
    while True:
        try:
            return await attempt()
        except UnavailableError as error:
            failures += 1
            wait = max(retry.wait(failures, seed), error.retry_after or 0.0)
            if failures >= retry.attempts:
                raise EngineError(f"{error} (attempt {failures} of {retry.attempts})") from error
            if clock.now() + wait >= deadline:
                raise EngineError(
                    f"{error} (attempt {failures}); the next attempt, {in_seconds(wait)} from "
                    "now, would come after the deadline"
                ) from error
            _log.warning("%s; attempt %d follows in %.3g s", error, failures + 1, wait)
        await clock.sleep(wait)
