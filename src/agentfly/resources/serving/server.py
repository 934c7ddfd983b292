"""HTTP for `Sessions`: the wire in threads of the standard library, the work in the event loop."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from agentfly.errors import AgentFlyError
from agentfly.resources import wire
from agentfly.resources.manager import EnvironmentManager
from agentfly.resources.pooling import pooling_of
from agentfly.resources.serving.sessions import RefusalError, Sessions
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_server import Handler, listening
from agentfly.runtime.ordered import one_error
from agentfly.types import EnvSpec, Pool

SESSION_SECONDS = 300.0
"""A client that says nothing for this long is taken for dead."""

_log = logging.getLogger(__name__)


async def serve_environment(
    spec: EnvSpec,
    *,
    host: str = "127.0.0.1",
    port: int = 8700,
    session_seconds: float = SESSION_SECONDS,
) -> None:
    """Serve an environment until this is cancelled.

    There is no password: whoever reaches the port can use the environment.
    """
    async with environment_server(
        spec, host=host, port=port, session_seconds=session_seconds
    ) as url:
        _log.warning("serving %s at %s", spec.name, url)
        await asyncio.Event().wait()


@asynccontextmanager
async def environment_server(
    spec: EnvSpec,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    session_seconds: float = SESSION_SECONDS,
    pool: Pool | None = None,
) -> AsyncIterator[str]:
    """Serve an environment in the background; yield the address.

    Args:
        spec: What to serve; a client may add options for the factory.
        host: Which of this machine's addresses to listen on.
        port: 0 means any that is free.
        session_seconds: A session without a request for this long is closed.
        pool: Where the instances come from; by default a manager of the server's own.
    """
    async with AsyncExitStack() as stack:
        if pool is None:
            pool = await stack.enter_async_context(_own_manager(spec))
        sessions = Sessions(spec=spec, pool=pool, clock=LoopClock(), idle_seconds=session_seconds)
        stack.push_async_callback(sessions.close_all)
        stack.enter_context(one_error())
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        stack.callback(tasks.create_task(sessions.expire()).cancel)
        loop = asyncio.get_running_loop()
        yield stack.enter_context(
            listening(_Handler, host=host, port=port, sessions=sessions, loop=loop)
        )


def _own_manager(spec: EnvSpec) -> EnvironmentManager:
    pooling = pooling_of(spec.factory)
    if "://" in pooling.where:
        pooling = replace(pooling, where="here")  # That is how clients find this very server.
    return EnvironmentManager({spec.factory: pooling})


class _Handler(Handler):
    """One connection."""

    timeout = SESSION_SECONDS
    sessions: Sessions
    loop: asyncio.AbstractEventLoop

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        try:
            work = self._routed(self._body())
            status, answer = asyncio.run_coroutine_threadsafe(work, self.loop).result()
            self._send(status, json.dumps(answer).encode())
        except RefusalError as refusal:
            self._refuse(refusal.status, refusal.kind, str(refusal))
        except AgentFlyError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__, str(error))
        except (KeyError, TypeError, ValueError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, type(error).__name__, str(error))

    async def _routed(self, body: dict[str, Any]) -> tuple[HTTPStatus, Any]:
        match (self.command, *self.path.strip("/").split("/")):
            case ("GET", ""):
                name = self.sessions.spec.name
                return HTTPStatus.OK, {"protocol": wire.PROTOCOL, "environment": name}
            case ("POST", "sessions"):
                return HTTPStatus.CREATED, await self.sessions.open(body.get("options", {}))
            case ("GET", "sessions", session, attribute):
                return HTTPStatus.OK, await self.sessions.read(session, attribute)
            case ("POST", "sessions", session, method):
                return HTTPStatus.OK, await self.sessions.call(session, method, body)
            case ("DELETE", "sessions", session):
                await self.sessions.close(session)
                return HTTPStatus.NO_CONTENT, None
        raise RefusalError(HTTPStatus.NOT_FOUND, "NoPath", f"no {self.command} {self.path}")

    def _body(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= wire.MAX_BYTES:
            self.close_connection = True
            raise ValueError(f"a body may have {wire.MAX_BYTES} bytes, got {length}")
        text = self.rfile.read(length)
        # A web page can send a form to any address, but not JSON.
        if self.command == "POST" and self.headers.get_content_type() != "application/json":
            raise ValueError("the body must be application/json")
        plain = json.loads(text) if text else {}
        if not isinstance(plain, dict):
            raise TypeError(f"the body must be a JSON object, got {plain!r:.100}")
        return plain

    def _refuse(self, status: HTTPStatus, kind: str, message: str) -> None:
        self._send(status, json.dumps({"error": {"kind": kind, "message": message}}).encode())

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status is not HTTPStatus.NO_CONTENT:
            self.wfile.write(body)
