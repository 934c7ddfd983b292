"""Failures of HTTP requests: as typed errors, and asked again where the reason may pass.

HttpError
├── ForbiddenError      403: the server refuses this route, or the key
├── NotFoundError       404: no such route, or no such model
└── UnavailableError    429, 5xx or a broken connection: another attempt may succeed
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from agentfly.errors import ConfigError, DeadlineError, HttpError
from agentfly.runtime.clock import in_seconds
from agentfly.types import Clock, Seed

T = TypeVar("T")

EXCERPT = 300
"""Maximum characters of a server's own text in an error message."""

_WAY_OUT = {
    401: "Is api_key_env the name of the variable that holds this server's key?",
    403: "Is api_key_env the name of the variable that holds this server's key?",
    404: "Check the server's url (most end in /v1) and the model's name",
    405: "Check the server's url (most end in /v1)",
}

_log = logging.getLogger(__name__)


class ForbiddenError(HttpError):
    """The server refuses this route, or the key."""


class NotFoundError(HttpError):
    """The server has no such route, or no such model."""


class UnavailableError(HttpError):
    """The server can't answer now: 429, 5xx, or a broken connection."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the server asked us to wait."""


def refusal(where: str, status: int, body: bytes, retry_after: str | None) -> HttpError:
    """Return the error to raise for a response that is not a success."""
    said = f"{where} answered {status}: {excerpt(body) or 'nothing else'}"
    if status == 429 or status >= 500:
        return UnavailableError(said, retry_after=seconds_of(retry_after))
    if 300 <= status < 400:
        return HttpError(f"{said}. Redirects are not followed: give the final url")
    kind = {403: ForbiddenError, 404: NotFoundError}.get(status, HttpError)
    return kind(". ".join(filter(None, (said, _WAY_OUT.get(status)))))


def excerpt(body: bytes) -> str:
    """Return the beginning of a response's text, on one line."""
    text = " ".join(body[: 4 * EXCERPT].decode(errors="replace").split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def seconds_of(retry_after: str | None) -> float | None:
    """Read a Retry-After header: seconds or a date; None for anything else.

    >>> seconds_of("2.5"), seconds_of("soon")
    (2.5, None)
    """
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Number of attempts, and the waits between them.

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
"""For requests that must not be sent twice."""

_another_can_answer: ContextVar[bool] = ContextVar("another_can_answer", default=False)


@contextmanager
def failing_over() -> Iterator[None]:
    """Give up at the first failure inside the block, because another server can answer.

    A context variable, so that the hint passes through any layers between without being part of
    their interfaces.

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
    """Return `retry`, or a single attempt inside `failing_over`."""
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
                raise HttpError(f"{error} (attempt {failures} of {retry.attempts})") from error
            if clock.now() + wait >= deadline:
                raise HttpError(
                    f"{error} (attempt {failures}); the next attempt, {in_seconds(wait)} from "
                    "now, would come after the deadline"
                ) from error
            _log.warning("%s; attempt %d follows in %.3g s", error, failures + 1, wait)
        await clock.sleep(wait)


class RateLimit:
    """At most so many requests per minute, evenly spread and in the order of arrival."""

    def __init__(self, requests_per_minute: float | None, clock: Clock) -> None:
        self._rate = requests_per_minute
        self._clock = clock
        self._next = 0.0

    async def acquire(self, deadline: float) -> None:
        """Wait for the next free slot; raise DeadlineError if it is after the deadline."""
        if self._rate is None:
            return
        now = self._clock.now()
        start = max(now, self._next)
        if start > deadline:
            raise DeadlineError(
                f"the limit of {self._rate:g} requests a minute leaves no turn for "
                f"another {in_seconds(start - now)}, after the deadline. Raise the limit, or "
                "lower the number of chains at once"
            )
        self._next = start + 60.0 / self._rate
        if start > now:
            await self._clock.sleep(start - now)
