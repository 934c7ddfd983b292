"""An HTTP client with bounded concurrency, retries and deadlines.

    request ── deadline ─┬─ attempt: semaphore ─ rate limit ─ connection ─ status ─ reading
                         └─ wait (backoff or Retry-After), next attempt

Whatever ends a request (its deadline, a cancellation, `close`) closes its connection, so that the
server does not go on working for an answer that is not read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ValidationError

from agentfly.errors import ConfigError, DeadlineError, HttpError
from agentfly.runtime.clock import in_seconds
from agentfly.runtime.extra import import_extra
from agentfly.runtime.http_retry import (
    RateLimit,
    Retry,
    UnavailableError,
    excerpt,
    refusal,
    retrying,
    unless_failing_over,
)
from agentfly.types import Clock, Seed

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

CONNECT_SECONDS = 10.0
"""Seconds after which a server that accepts no connection is considered dead."""
IDLE_SECONDS = 2.0
"""Idle connections are dropped before servers do so (uvicorn after 5 s): a request must not be
written to a connection that the other side is closing."""
MAX_BYTES = 64 * 2**20
"""Maximum size of a response: far more than any completion with its log-probabilities."""

_END_OF_STREAM = "[DONE]"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY_SEED = Seed(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address of a server, and the limits of its use.

    >>> Endpoint(url="https://api.openai.com/v1", api_key_env="OPENAI_API_KEY",
    ...          requests_per_minute=500).is_loopback
    False
    """

    url: str
    """Address that paths such as `/chat/completions` are appended to."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; a key itself is never written down."""
    max_concurrent: int = 256
    """Maximum number of concurrent requests; others wait."""
    requests_per_minute: float | None = None
    request_seconds: float = 600.0
    """Seconds after which one attempt counts as a broken connection, whatever the deadline."""
    retry: Retry = field(default_factory=Retry)

    def __post_init__(self) -> None:
        if not _is_http(self.url):
            raise ConfigError(
                f"a server's url looks like 'http://localhost:8000/v1', got {self.url!r}"
            )
        for name in ("max_concurrent", "requests_per_minute", "request_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} must be greater than 0, got {value!r}")

    @classmethod
    def of(cls, server: str | Endpoint) -> Endpoint:
        """Return an endpoint with default limits for a plain address."""
        return server if isinstance(server, Endpoint) else cls(url=server)

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, where no proxy is wanted."""
        return urlsplit(self.url).hostname in _LOOPBACK

    def headers(self) -> dict[str, str]:
        """Return the authorization header, with the key as it is in the environment now."""
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env)
        if not key:
            raise ConfigError(
                f"the environment variable {self.api_key_env!r} is not set: it should hold the key "
                f"for {self.url}. Set it (export {self.api_key_env}=...), or pass api_key_env=None "
                "for a server that needs no key"
            )
        return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, as it is sent at every attempt."""

    path: str
    method: str = "POST"
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpResponse:
    """The body of one response, read as it arrives: bounded in size and validated.

    A server may answer anything at any speed. The deadline around the request ends a slow one;
    a response that is too long or malformed becomes an HttpError here.
    """

    def __init__(self, response: httpx2.Response, where: str) -> None:
        self._response = response
        self._where = where

    async def body(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self._chunks()])

    async def json(self, kind: type[M], expected: str) -> M:
        """Return the body as an object of this kind, called `expected` in error messages."""
        return self.read(await self.body(), kind, expected)

    def read(self, data: str | bytes, kind: type[M], expected: str) -> M:
        """Validate one JSON text; raise HttpError with what was expected."""
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            said = excerpt(data.encode() if isinstance(data, str) else data)
            raise HttpError(
                f"{self._where} should have answered {expected}, but {place}: {first['msg']}. "
                f"It answered: {said or 'nothing'}"
            ) from error

    async def events(self) -> AsyncGenerator[str, None]:
        """Yield the data of each server-sent event until the end marker."""
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                data = _event_data(line)
                if data == _END_OF_STREAM:
                    return
                if data:
                    yield data
        raise UnavailableError(f"{self._where} ended its stream without saying {_END_OF_STREAM}")

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        size = 0
        try:
            async for chunk in self._response.aiter_bytes():
                size += len(chunk)
                if size > MAX_BYTES:
                    raise HttpError(
                        f"{self._where} answered more than {MAX_BYTES // 2**20} MiB; expected one "
                        "completion"
                    )
                yield chunk
        except import_httpx().TransportError as error:
            raise broken(self._where, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """Connections and limits of one event loop."""

    life: AsyncGenerator[httpx2.AsyncClient, None]
    client: httpx2.AsyncClient
    slots: asyncio.Semaphore
    in_flight: set[asyncio.Timeout] = field(default_factory=set)


class HttpClient:
    """Client of one server, usable from any event loop."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        import_httpx()
        endpoint.headers()  # A missing key is reported now, not at the first request.
        self.endpoint = endpoint
        self._clock = clock
        self._rate_limit = RateLimit(endpoint.requests_per_minute, clock)
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()
        self._closed = False

    async def request(
        self,
        call: Call,
        read: Callable[[HttpResponse], Awaitable[T]],
        *,
        deadline: float,
        seed: Seed = _ANY_SEED,
        retry: Retry | None = None,
        on_started: Callable[[], None] | None = None,
    ) -> T:
        """Send a call and read its response; raise HttpError, or DeadlineError at the deadline.

        Args:
            call: What to send.
            read: Reads the response of an attempt; what it raises ends the request, except
                UnavailableError, after which another attempt is made.
            deadline: On the client's clock, for all attempts together.
            seed: Of the waits between attempts.
            retry: Other than the endpoint's own, which `failing_over` may cut to one attempt.
            on_started: Called before each attempt, after its wait for a slot.
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
        """End all requests with HttpError, and close the connections."""
        self._closed = True
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            for request in session.in_flight:
                request.reschedule(0.0)
            await session.life.aclose()

    @contextmanager
    def _ended_by_close(self, session: _Session, where: str) -> Iterator[asyncio.Timeout]:
        closing = asyncio.timeout(None)
        session.in_flight.add(closing)
        try:
            yield closing
        except TimeoutError as error:
            if closing.expired():
                raise HttpError(f"the client was closed while {where} was asked") from error
            raise
        finally:
            session.in_flight.discard(closing)

    async def _attempt(
        self,
        session: _Session,
        call: Call,
        read: Callable[[HttpResponse], Awaitable[T]],
        deadline: float,
        on_started: Callable[[], None] | None,
    ) -> T:
        seconds = self.endpoint.request_seconds
        async with session.slots:
            await self._rate_limit.acquire(deadline)
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
        self, client: httpx2.AsyncClient, call: Call, read: Callable[[HttpResponse], Awaitable[T]]
    ) -> T:
        httpx = import_httpx()
        where = self._where(call)
        request = client.build_request(
            call.method, call.path, json=call.body, params=call.query, headers=call.headers
        )
        try:
            response = await client.send(request, stream=True)
            try:
                if not response.is_success:
                    raise await _refused(response, where)
                return await read(HttpResponse(response, where))
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise broken(where, error) from error
        except httpx.DecodingError as error:
            raise HttpError(f"{where} answered what can't be decoded: {error}") from error

    async def _session(self) -> _Session:
        if self._closed:
            raise HttpError("the client is closed")
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            life = _connections(self.endpoint)
            session = _Session(
                life=life,
                client=await anext(life),
                slots=asyncio.Semaphore(self.endpoint.max_concurrent),
            )
            self._sessions[loop] = session
        return session

    def _where(self, call: Call) -> str:
        return f"{self.endpoint.url.rstrip('/')}{call.path}"


def broken(where: str, error: Exception) -> UnavailableError:
    """Return the error to raise for a connection that could not be made, or broke."""
    kind = type(error).__name__
    hint = ". Expected a server there: is it started, and is its address right?"
    text = f"{where}: the connection broke: {kind}: {error}"
    return UnavailableError(text + (hint if kind == "ConnectError" else ""))


def import_httpx() -> Any:
    """Import the HTTP library, or raise ConfigError with how to install it."""
    return import_extra("httpx2", extra="openai", purpose="talking to a server")


async def _connections(endpoint: Endpoint) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """Open an httpx client, and close it when this generator is closed.

    An event loop that ends closes its asynchronous generators, so no connection outlives it, even
    if `close` is never called. The client has no timeout of its own: the caller's deadline holds.
    """
    httpx = import_httpx()
    client: httpx2.AsyncClient = httpx.AsyncClient(
        base_url=endpoint.url,
        headers=endpoint.headers(),
        limits=httpx.Limits(
            max_keepalive_connections=endpoint.max_concurrent, keepalive_expiry=IDLE_SECONDS
        ),
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        trust_env=not endpoint.is_loopback,
    )
    try:
        yield client
    finally:
        await client.aclose()


async def _refused(response: httpx2.Response, where: str) -> HttpError:
    body = b""
    # The rest of the server's text is not worth another failure.
    with suppress(import_httpx().HTTPError, HttpError):
        body = await HttpResponse(response, where).body()
    return refusal(where, response.status_code, body, response.headers.get("Retry-After"))


def _event_data(line: bytes) -> str:
    """Return the data of a line of an event stream; empty for comments and other fields."""
    return line[5:].decode(errors="replace").strip() if line.startswith(b"data:") else ""


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, or half an IPv6 address
        return False
