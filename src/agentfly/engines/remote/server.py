"""Requests to one server: never more at once than it may get, and none that outlives its deadline.

    request ── deadline ─┬─ attempt: a place ─ its turn ─ connection ─ status ─ reading the answer
                         └─ wait (backoff or Retry-After), next attempt

Whatever ends a request (its deadline, a cancellation, `close`) closes its connection, so that the
server stops working for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from agentfly.engines.remote.answer import Answer
from agentfly.engines.remote.connection import broken, connections, import_httpx
from agentfly.engines.remote.endpoint import Endpoint
from agentfly.engines.remote.pace import Pace
from agentfly.engines.remote.refusal import refusal
from agentfly.engines.remote.retry import Retry, UnavailableError, retrying, unless_failing_over
from agentfly.errors import DeadlineError, EngineError
from agentfly.runtime.clock import in_seconds
from agentfly.types import Clock, Seed

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_ANY_SEED = Seed(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, as it is sent at every attempt."""

    path: str
    method: str = "POST"
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """What belongs to one event loop."""

    life: AsyncGenerator[httpx2.AsyncClient, None]
    client: httpx2.AsyncClient
    places: asyncio.Semaphore
    under_way: set[asyncio.Timeout] = field(default_factory=set)


class Server:
    """One server, from any event loop."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        import_httpx()
        endpoint.headers()  # A missing key is reported now, not at the first request.
        self.endpoint = endpoint
        self._clock = clock
        self._pace = Pace(endpoint.requests_per_minute, clock)
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()
        self._closed = False

    async def request(
        self,
        call: Call,
        read: Callable[[Answer], Awaitable[T]],
        *,
        deadline: float,
        seed: Seed = _ANY_SEED,
        retry: Retry | None = None,
        on_started: Callable[[], None] | None = None,
    ) -> T:
        """Send a call and read its answer; raise EngineError, or DeadlineError at the deadline.

        Args:
            call: What to send.
            read: Reads the answer of an attempt; what it raises ends the request, except
                UnavailableError, after which another attempt is made.
            deadline: On the engine's clock, for all attempts together.
            seed: Of the waits between attempts.
            retry: Other than the endpoint's own, which `failing_over` may cut to one attempt.
            on_started: Called whenever the call is about to be sent, after it waited for its turn.
        """
        session = await self._session()
        where = self._where(call)
        started = self._clock.now()
        try:
            with self._ended_by_close(session, where) as closing:
                async with closing, self._clock.timeout_at(deadline):
                    return await retrying(
                        lambda: self._attempt(session, call, read, deadline, on_started),
                        retry=retry or unless_failing_over(self.endpoint.retry),
                        seed=seed,
                        clock=self._clock,
                        deadline=deadline,
                    )
        except TimeoutError as error:
            if isinstance(error, DeadlineError):
                raise
            limit = max(0.0, deadline - started)
            raise DeadlineError(
                f"{where} gave no whole answer within {in_seconds(limit)}"
            ) from error

    async def close(self) -> None:
        """End all requests with EngineError, and close the connections."""
        self._closed = True
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            for request in session.under_way:
                request.reschedule(0.0)
            await session.life.aclose()

    @contextmanager
    def _ended_by_close(self, session: _Session, where: str) -> Iterator[asyncio.Timeout]:
        closing = asyncio.timeout(None)
        session.under_way.add(closing)
        try:
            yield closing
        except TimeoutError as error:
            if closing.expired():
                raise EngineError(f"the engine was closed while {where} was asked") from error
            raise
        finally:
            session.under_way.discard(closing)

    async def _attempt(
        self,
        session: _Session,
        call: Call,
        read: Callable[[Answer], Awaitable[T]],
        deadline: float,
        on_started: Callable[[], None] | None,
    ) -> T:
        seconds = self.endpoint.request_seconds
        async with session.places:
            await self._pace.turn(deadline)
            if on_started is not None:
                on_started()
            try:
                async with self._clock.timeout_at(self._clock.now() + seconds):
                    return await self._exchange(session.client, call, read)
            except TimeoutError as error:
                raise UnavailableError(
                    f"{self._where(call)} gave no whole answer within {seconds:g} s"
                ) from error

    async def _exchange(
        self, client: httpx2.AsyncClient, call: Call, read: Callable[[Answer], Awaitable[T]]
    ) -> T:
        httpx = import_httpx()
        where = self._where(call)
        request = client.build_request(
            call.method, call.path, json=call.body, params=call.query, headers=call.headers
        )
        try:
            response = await client.send(request, stream=True)
            try:
                answer = Answer(response, where)
                if not response.is_success:
                    raise await _refused(response, answer, where)
                return await read(answer)
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise broken(where, error) from error
        except httpx.DecodingError as error:
            raise EngineError(f"{where} answered what can't be decoded: {error}") from error

    async def _session(self) -> _Session:
        if self._closed:
            raise EngineError("the engine is closed")
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            life = connections(self.endpoint)
            session = _Session(
                life=life,
                client=await anext(life),
                places=asyncio.Semaphore(self.endpoint.max_concurrent),
            )
            self._sessions[loop] = session
        return session

    def _where(self, call: Call) -> str:
        return f"{self.endpoint.url.rstrip('/')}{call.path}"


async def _refused(response: httpx2.Response, answer: Answer, where: str) -> EngineError:
    body = b""
    # What else the server wanted to say is not worth another failure.
    with suppress(import_httpx().HTTPError, EngineError):
        body = await answer.body()
    return refusal(where, response.status_code, body, response.headers.get("Retry-After"))
