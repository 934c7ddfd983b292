"""The sessions of an environment server: each holds one leased instance until it is closed."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

from agentfly.errors import DeadlineError, EnvError, LeaseTimeout
from agentfly.resources import wire
from agentfly.resources.homes.instance import methods_of
from agentfly.resources.loan import Handle
from agentfly.runtime.invoke import invoke
from agentfly.types import Clock, EnvSpec, Pool, Seed

LEASE_SECONDS = 10.0
"""How long a client waits for a free instance before it is told to ask again."""
CALL_SECONDS = 600.0
"""No call in this process takes longer; one in a worker process has its own limit."""


class RefusalError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(eq=False, slots=True, kw_only=True)
class Session:
    """One instance in a client's hands."""

    id: str
    environment: Any
    lease: AsyncExitStack
    used_at: float
    last_number: int = 0
    last_call: asyncio.Future[Any] | None = None
    """The last call's answer, for whoever asks again."""

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return self.last_call is not None and not self.last_call.done()


@dataclass(eq=False, slots=True, kw_only=True)
class Sessions:
    """All sessions of one server."""

    spec: EnvSpec
    pool: Pool
    clock: Clock
    idle_seconds: float
    """A session that nobody asked for anything in this time is closed: its client is dead."""
    _open: dict[str, Session] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Lease an instance for a new client."""
        spec = EnvSpec(self.spec.factory, (*self.spec.options, *options.items()))
        name = secrets.token_hex(8)
        lease = AsyncExitStack()
        deadline = self.clock.now() + LEASE_SECONDS
        try:
            leased = await lease.enter_async_context(
                self.pool.lease([spec], owner=f"session {name}", deadline=deadline)
            )
        except LeaseTimeout as error:
            raise RefusalError(
                HTTPStatus.SERVICE_UNAVAILABLE, "LeaseTimeout", str(error)
            ) from error
        self._open[name] = Session(
            id=name, environment=leased[spec], lease=lease, used_at=self.clock.now()
        )
        return {"session": name, "methods": _public_methods(leased[spec])}

    async def read(self, name: str, attribute: str) -> dict[str, Any]:
        """Read an attribute."""
        session = self._session(name, attribute)
        value = await self._guarded(session, lambda: getattr(session.environment, attribute))
        return {"value": wire.to_plain(value)}

    async def call(self, name: str, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method, or answer again what was called already."""
        session = self._session(name, method)
        number = int(body["number"])
        if session.last_call is not None and number == session.last_number:
            value = await asyncio.shield(session.last_call)
            return {"value": value}
        if session.is_busy:
            raise RefusalError(HTTPStatus.CONFLICT, "Busy", "another call is under way")
        session.last_number = number
        session.last_call = asyncio.get_running_loop().create_future()
        session.last_call.add_done_callback(_retrieved)
        call = partial(_called, session.environment, method, body)
        try:
            value = wire.to_plain(await self._guarded(session, call))
        except BaseException as error:
            session.last_call.set_exception(error)
            raise
        session.last_call.set_result(value)
        return {"value": value}

    async def close(self, name: str) -> None:
        """Give a session's instance back; one that is closed already stays so."""
        if name in self._open:
            await self._drop(self._open[name])

    async def expire(self) -> None:
        """Close the sessions of dead clients, for as long as the server runs."""
        while True:
            await self.clock.sleep(self.idle_seconds / 4)
            limit = self.clock.now() - self.idle_seconds
            for session in list(self._open.values()):
                if session.used_at < limit and not session.is_busy:
                    await self._drop(session)

    async def close_all(self) -> None:
        """Give all instances back."""
        for session in list(self._open.values()):
            await self._drop(session)

    def _session(self, name: str, attribute: str) -> Session:
        session = self._open.get(name)
        if session is None:
            message = f"no session {name!r}: it may have been closed"
            raise RefusalError(HTTPStatus.NOT_FOUND, "NoSession", message)
        if attribute.startswith("_"):
            raise RefusalError(HTTPStatus.NOT_FOUND, "NoAttribute", f"no attribute {attribute!r}")
        session.used_at = self.clock.now()
        return session

    async def _guarded(self, session: Session, call: Callable[[], Any]) -> Any:
        deadline = self.clock.now() + CALL_SECONDS
        try:
            return await invoke(
                call, name=f"session {session.id}", clock=self.clock, deadline=deadline
            )
        except (DeadlineError, EnvError) as error:
            await self._drop(session)
            raise RefusalError(
                HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__, str(error)
            ) from error
        except Exception as error:
            raise RefusalError(
                HTTPStatus.UNPROCESSABLE_ENTITY, type(error).__name__, str(error)
            ) from error
        finally:
            session.used_at = self.clock.now()

    async def _drop(self, session: Session) -> None:
        if self._open.pop(session.id, None) is not None:
            await session.lease.aclose()


def _public_methods(environment: object) -> list[str]:
    names = dir(environment) if isinstance(environment, Handle) else methods_of(environment)
    return [name for name in names if not name.startswith("_") and name != "close"]


def _called(environment: Any, method: str, body: Mapping[str, Any]) -> Any:
    args, kwargs = list(body.get("args", ())), dict(body.get("kwargs", {}))
    if method == "reset":
        task, seed, *_ = [*args, *(kwargs[name] for name in ("task", "seed") if name in kwargs)]
        args, kwargs = [wire.task_of(task), Seed(int(seed))], {}
    return getattr(environment, method)(*args, **kwargs)


def _retrieved(call: asyncio.Future[Any]) -> None:
    """Fetch the error, so that asyncio doesn't complain if nobody asks for it again."""
    if not call.cancelled():
        call.exception()
