"""The sessions of an environment server, each with one leased instance; and its routes."""

import asyncio
import itertools
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentfly.errors import ConfigError, DeadlineError, EnvError, LeaseTimeout
from agentfly.resources import http_protocol
from agentfly.resources.client_options import OfferedOptions, OptionError, SessionLimits
from agentfly.resources.placement.instance import methods_of
from agentfly.resources.pool import Handle
from agentfly.runtime.http.messages import RefusalError, dump, json_answer, json_bytes, read_json
from agentfly.runtime.invoke import invoke
from agentfly.runtime.threads import shared_threads
from agentfly.types import Clock, EnvSpec, Pool

LEASE_SECONDS = 10.0
"""Maximum wait of a client for a free instance; then the answer is 503."""
CALL_SECONDS = 600.0
"""No call in this process takes longer; one in a worker process has its own limit."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class Session:
    """One instance in a client's hands."""

    id: str = field(repr=False)
    """Secret: any client that has it can use the session."""
    client: str
    environment: Any
    methods: frozenset[str]
    lease: AsyncExitStack
    used_at: float
    is_busy: bool = False
    """Whether a call or a reading is under way."""
    last_number: int = 0
    last_digest: bytes = b""
    last_answer: asyncio.Future[bytes] | None = None
    """The answer to the last call, for a client that sends it again."""


@dataclass(eq=False, slots=True, kw_only=True)
class Sessions:
    """All sessions of one server."""

    options: OfferedOptions
    pool: Pool
    clock: Clock
    limits: SessionLimits
    _open: dict[str, Session] = field(default_factory=dict)
    _held: Counter[str] = field(default_factory=Counter)
    """Number of sessions that each client has, or is about to have."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, client: str, options: object) -> dict[str, Any]:
        """Lease an instance for a client."""
        try:
            spec = self.options.spec_for(options)
        except OptionError as error:
            raise RefusalError(HTTPStatus.FORBIDDEN, "OptionNotAllowed", str(error)) from error
        self._require_place(client)
        self._held[client] += 1
        try:
            session = await self._leased(client, spec)
        except BaseException:
            self._release(client)
            raise
        self._open[session.id] = session
        return {"session": session.id, "methods": sorted(session.methods)}

    async def read(self, name: str, attribute: str) -> bytes:
        """Read an attribute that is not a method."""
        session = self._idle_session(name)
        if attribute in session.methods:
            message = f"{attribute} is a method: send POST with a number and its arguments"
            raise RefusalError(HTTPStatus.METHOD_NOT_ALLOWED, "Method", message, {"Allow": "POST"})
        if attribute.startswith("_") or not attribute.isidentifier():
            message = f"no attribute {attribute[:100]!r}"
            raise RefusalError(HTTPStatus.NOT_FOUND, "NoAttribute", message)
        return await self._answer(
            session, attribute, partial(getattr, session.environment, attribute)
        )

    async def call(self, name: str, method: str, request: http_protocol.CallRequest) -> bytes:
        """Call a method, or answer again what was called already."""
        session = self._session(name)
        if method not in session.methods:
            known = ", ".join(sorted(session.methods))
            message = f"no method {method[:100]!r}. There are: {known}"
            raise RefusalError(HTTPStatus.NOT_FOUND, "NoMethod", message)
        if session.last_answer is not None and request.number == session.last_number:
            return await self._again(session, session.last_answer, request)
        if request.number != session.last_number + 1:
            raise _conflict("OutOfOrder", f"the next call is {session.last_number + 1}", request)
        session = self._idle_session(name)
        call = partial(_called, session.environment, method, request)
        session.last_number, session.last_digest = request.number, request.digest
        answer = session.last_answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_retrieved)
        try:
            body = await self._answer(session, method, call)
        except BaseException as error:
            answer.set_exception(error)
            raise
        answer.set_result(body)
        return body

    async def close(self, name: str) -> None:
        """End a session; one that has ended stays so."""
        if name in self._open:
            await self._end(self._open[name])

    async def expire(self) -> None:
        """End the sessions of dead clients, for as long as the server runs."""
        while True:
            await self.clock.sleep(self.limits.idle_seconds / 4)
            limit = self.clock.now() - self.limits.idle_seconds
            idle = [one for one in self._open.values() if one.used_at < limit and not one.is_busy]
            await self._end_all(idle)

    async def close_all(self) -> None:
        """End all sessions."""
        await self._end_all(list(self._open.values()))

    def _require_place(self, client: str) -> None:
        if self._held.total() >= self.limits.total:
            message = f"all {self.limits.total} sessions are in use: end some, or ask again"
            raise _later(HTTPStatus.SERVICE_UNAVAILABLE, "TooManySessions", message)
        if self._held[client] >= self.limits.per_client:
            message = f"a client may have {self.limits.per_client} sessions: end some first"
            raise _later(HTTPStatus.TOO_MANY_REQUESTS, "TooManySessions", message)

    async def _leased(self, client: str, spec: EnvSpec) -> Session:
        lease = AsyncExitStack()
        # The owner is shown to others; the id is secret.
        owner = f"session {next(self._numbers)}"
        deadline = self.clock.now() + LEASE_SECONDS
        try:
            leased = await lease.enter_async_context(
                self.pool.lease([spec], owner=owner, deadline=deadline)
            )
        except LeaseTimeout as error:
            message = f"no instance became free within {LEASE_SECONDS:g} s: ask again"
            raise _later(HTTPStatus.SERVICE_UNAVAILABLE, "LeaseTimeout", message) from error
        except (EnvError, ConfigError) as error:
            raise _broken(error) from error
        return Session(
            id=secrets.token_urlsafe(24),
            client=client,
            environment=leased[spec],
            methods=_public_methods(leased[spec]),
            lease=lease,
            used_at=self.clock.now(),
        )

    def _session(self, name: str) -> Session:
        session = self._open.get(name)
        if session is None:
            raise _no_session("it may have ended")
        session.used_at = self.clock.now()
        return session

    def _idle_session(self, name: str) -> Session:
        session = self._session(name)
        if session.is_busy:
            message = "another call is under way in this session"
            raise RefusalError(HTTPStatus.CONFLICT, "Busy", message)
        return session

    async def _again(
        self, session: Session, answer: asyncio.Future[bytes], request: http_protocol.CallRequest
    ) -> bytes:
        if request.digest != session.last_digest:
            raise _conflict("OutOfOrder", "that number was another call", request)
        return await asyncio.shield(answer)

    async def _answer(self, session: Session, name: str, call: Callable[[], Any]) -> bytes:
        session.is_busy = True
        try:
            value = await self._guarded(session, call)
            # Of unknown size: written in a thread, so that no other client waits for it.
            return await shared_threads().run(partial(_written, name, value), name="write JSON")
        finally:
            session.is_busy = False
            session.used_at = self.clock.now()

    async def _guarded(self, session: Session, call: Callable[[], Any]) -> Any:
        deadline = self.clock.now() + CALL_SECONDS
        try:
            return await invoke(call, name="a call", clock=self.clock, deadline=deadline)
        except Exception as error:
            if session.id not in self._open:
                # A failure while its instance is taken away is not the instance's fault.
                raise _no_session("it ended while this was under way") from error
            if isinstance(error, DeadlineError | EnvError):
                await self._end(session)
                raise _broken(error) from error
            raise _raised(type(error).__name__, str(error)) from error

    async def _end_all(self, sessions: list[Session]) -> None:
        async with asyncio.TaskGroup() as endings:
            for session in sessions:
                endings.create_task(self._end(session))

    async def _end(self, session: Session) -> None:
        if self._open.pop(session.id, None) is None:
            return
        self._release(session.client)
        try:
            await session.lease.aclose()
        except Exception:  # noqa: BLE001 - one bad instance must not end the server
            _log.exception("a session of %s did not end cleanly", session.client)

    def _release(self, client: str) -> None:
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]


def _public_methods(environment: object) -> frozenset[str]:
    names = dir(environment) if isinstance(environment, Handle) else methods_of(environment)
    return frozenset(name for name in names if not name.startswith("_") and name != "close")


def _called(environment: Any, method: str, request: http_protocol.CallRequest) -> Any:
    return getattr(environment, method)(*request.args, **request.kwargs)


def _written(name: str, value: object) -> bytes:
    try:
        body = dump({"value": http_protocol.to_plain(value)})
    except (TypeError, ValueError) as error:
        raise _raised("NotJSON", f"{name} gave a value that JSON can't hold: {error}") from error
    if len(body) > http_protocol.MAX_BYTES:
        message = f"{name} gave {len(body)} bytes of JSON, more than {http_protocol.MAX_BYTES}"
        raise _raised("AnswerTooLarge", message)
    return body


def _no_session(why: str) -> RefusalError:
    return RefusalError(HTTPStatus.NOT_FOUND, "NoSession", f"no such session: {why}")


def _raised(kind: str, message: str) -> RefusalError:
    return RefusalError(HTTPStatus.UNPROCESSABLE_ENTITY, kind, message)


def _broken(error: Exception) -> RefusalError:
    return RefusalError(HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__, str(error))


def _later(status: HTTPStatus, kind: str, message: str) -> RefusalError:
    return RefusalError(status, kind, message, {"Retry-After": "1"})


def _conflict(kind: str, reason: str, request: http_protocol.CallRequest) -> RefusalError:
    message = f"call {request.number} came out of order: {reason}"
    return RefusalError(HTTPStatus.CONFLICT, kind, message)


def _retrieved(answer: asyncio.Future[bytes]) -> None:
    """Fetch the error, so that asyncio doesn't complain if it is never asked for again."""
    if not answer.cancelled():
        answer.exception()


def routes(name: str, sessions: Sessions) -> Sequence[BaseRoute]:
    """Return the routes of the protocol.

    Args:
        name: The environment's name.
        sessions: The instances in clients' hands.
    """
    offered = {
        key: http_protocol.plain_option(list(values))
        for key, values in sessions.options.offered.items()
    }

    async def describe(request: Request) -> Response:
        return json_answer(
            {"protocol": http_protocol.PROTOCOL, "environment": name, "options": offered}
        )

    async def open_session(request: Request) -> Response:
        body = await read_json(request)
        if unknown := body.keys() - {"options"}:
            raise _bad_request(f'unknown key {min(unknown):.100}: write {{"options": {{...}}}}')
        opened = await sessions.open(_client(request), body.get("options", {}))
        return json_answer(opened, HTTPStatus.CREATED)

    async def close_session(request: Request) -> Response:
        await sessions.close(request.path_params["session"])
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def use_session(request: Request) -> Response:
        session, attribute = request.path_params["session"], request.path_params["attribute"]
        if request.method != "POST":
            return json_bytes(await sessions.read(session, attribute))
        body = await read_json(request)
        try:
            call = http_protocol.read_call(attribute, body, await request.body())
        except ConfigError as error:
            raise _bad_request(str(error)) from error
        return json_bytes(await sessions.call(session, attribute, call))

    return [
        Route("/", describe),
        Route("/sessions", open_session, methods=["POST"]),
        Route("/sessions/{session}", close_session, methods=["DELETE"]),
        Route("/sessions/{session}/{attribute}", use_session, methods=["GET", "POST"]),
    ]


def _bad_request(message: str) -> RefusalError:
    return RefusalError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def _client(request: Request) -> str:
    return request.client.host if request.client else "unknown"
