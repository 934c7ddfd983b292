"""Waits between attempts and between requests, in virtual time."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest

from agentfly.errors import ConfigError, DeadlineError, HttpError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_retry import (
    RateLimit,
    Retry,
    UnavailableError,
    excerpt,
    retrying,
    seconds_of,
)
from agentfly.testing import run_in_virtual_time
from agentfly.types import Seed


def waits(
    retry: Retry, *, seed: int = 0, deadline: float = math.inf, after: float | None = None
) -> list[float]:
    """Fail for ever, and return the moments of the attempts."""
    moments: list[float] = []

    async def attempt() -> None:
        moments.append(LoopClock().now())
        raise UnavailableError("busy", retry_after=after)

    async def main() -> None:
        with pytest.raises(HttpError, match="busy"):
            await retrying(
                attempt, retry=retry, seed=Seed(seed), clock=LoopClock(), deadline=deadline
            )

    run_in_virtual_time(main())
    return moments


def gaps(moments: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(moments)]


def test_waits_double_up_to_the_longest_within_their_upper_half() -> None:
    found = gaps(waits(Retry(attempts=7, first_wait=1.0, longest_wait=8.0)))
    longest = [1, 2, 4, 8, 8, 8]
    assert all(m / 2 <= gap <= m for gap, m in zip(found, longest, strict=True))


def test_jitter_follows_the_seed() -> None:
    assert waits(Retry(), seed=1) == waits(Retry(), seed=1) != waits(Retry(), seed=2)


def test_a_servers_wish_is_a_lower_bound() -> None:
    found = gaps(waits(Retry(attempts=3, first_wait=1.0), after=10.0))
    assert found == [10.0, 10.0]


def test_no_attempt_after_the_deadline() -> None:
    moments = waits(Retry(attempts=99, first_wait=4.0, longest_wait=4.0), deadline=10.0)
    assert 3 <= len(moments) <= 5
    assert moments[-1] < 10.0


def test_at_least_one_attempt() -> None:
    with pytest.raises(ConfigError, match="attempts must be at least 1, got 0"):
        Retry(attempts=0)


def test_pace_spreads_requests_evenly() -> None:
    async def main() -> list[float]:
        pace, clock = RateLimit(120, LoopClock()), LoopClock()
        moments = []
        for _ in range(4):
            await pace.acquire(math.inf)
            moments.append(clock.now())
        await clock.sleep(10)
        await pace.acquire(math.inf)
        return [*moments, clock.now()]

    # Every half second; a pause earns no burst.
    assert run_in_virtual_time(main()) == [0.0, 0.5, 1.0, 1.5, 11.5]


def test_a_turn_after_the_deadline_is_not_taken() -> None:
    async def main() -> float:
        pace, clock = RateLimit(60, LoopClock()), LoopClock()
        await pace.acquire(math.inf)
        for _ in range(5):
            with pytest.raises(DeadlineError, match="60 requests a minute"):
                await pace.acquire(clock.now() + 0.5)
        await pace.acquire(math.inf)
        return clock.now()

    assert run_in_virtual_time(main()) == 1.0


def test_turns_are_in_order() -> None:
    async def main() -> list[int]:
        pace, order = RateLimit(60, LoopClock()), list[int]()

        async def one(number: int) -> None:
            await pace.acquire(math.inf)
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(one(number))
        return order

    assert run_in_virtual_time(main()) == [0, 1, 2, 3, 4]


def test_retry_after_is_seconds_or_a_date() -> None:
    assert seconds_of(None) is None
    assert seconds_of("7") == 7.0
    assert seconds_of("-3") == 0.0
    assert seconds_of("soon") is None
    ahead = seconds_of(format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True))
    assert ahead is not None
    assert 60 < ahead <= 90


def test_a_servers_words_are_kept_short_and_on_one_line() -> None:
    assert excerpt(b"a\n\n  b") == "a b"
    assert len(excerpt(b"x" * 10_000)) == 301
