"""Connection to an MCP server over HTTP or stdio: opened when needed, reopened when broken."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agentfly.errors import AgentFlyError, DeadlineError, EnvError, ToolError
from agentfly.runtime.clock import in_seconds
from agentfly.runtime.process import PIPE, start

if TYPE_CHECKING:
    from mcp import Client, MCPError
if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

T = TypeVar("T")

CONNECT_SECONDS = 30.0
"""Maximum time to connect; after it the server counts as down."""
CLOSE_SECONDS = 15.0
"""A connection that can't close in this time is abandoned, not waited for."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Link:
    opened: "asyncio.Future[Client]"
    leave: asyncio.Event


class Connection:
    """Connection for requests to one server, each with a deadline.

    The client runs in its own task: a broken transport cancels the task that opened it, which must
    be neither a chain's nor the whole run's.
    """

    def __init__(
        self, server: str, open_client: "Callable[[], AbstractAsyncContextManager[Client]]"
    ) -> None:
        self._server = f"MCP server {server!r}"
        self._open_client = open_client
        self._link: _Link | None = None
        self._holders: set[asyncio.Task[None]] = set()

    async def request(self, send: "Callable[[Client], Awaitable[T]]", *, seconds: float) -> T:
        """Send a request; raise DeadlineError when it takes too long, EnvError when it breaks."""
        from mcp import MCPError

        link = self._linked()
        client = await asyncio.shield(link.opened)
        try:
            async with asyncio.timeout(seconds):
                return await send(client)
        except TimeoutError as error:
            raise DeadlineError(
                f"{self._server} did not answer in {in_seconds(seconds)}"
            ) from error
        except MCPError as error:
            raise self._classified(error, link) from error

    async def require_alive(
        self, send: "Callable[[Client], Awaitable[T]]", *, seconds: float
    ) -> None:
        """Raise EnvError unless the server answers; one that hangs is dropped."""
        link = self._linked()
        try:
            await self.request(send, seconds=seconds)
        except DeadlineError as error:
            self._drop(link)
            raise EnvError(f"{self._server} hangs: {error}") from error

    async def close(self) -> None:
        """Close the connection, and end the server if it was started here."""
        if self._link is not None:
            self._drop(self._link)
        if self._holders:
            _, pending = await asyncio.wait(self._holders, timeout=CLOSE_SECONDS)
            for holder in pending:
                holder.cancel()
                _log.error("%s can't be closed: abandoned", self._server)

    def _linked(self) -> _Link:
        if self._link is None:
            loop = asyncio.get_running_loop()
            self._link = _Link(loop.create_future(), asyncio.Event())
            holder = loop.create_task(self._hold(self._link), name=self._server)
            self._holders.add(holder)
            holder.add_done_callback(self._holders.discard)
        return self._link

    def _drop(self, link: _Link) -> None:
        link.leave.set()
        if self._link is link:
            self._link = None

    async def _hold(self, link: _Link) -> None:
        """Keep the client open until it breaks or is dropped."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_SECONDS):
                    client = await stack.enter_async_context(self._open_client())
                link.opened.set_result(client)
                await link.leave.wait()
        except Exception as error:  # noqa: BLE001 - any exception of a transport ends the link
            self._report(_innermost(error), link)
        finally:
            self._drop(link)

    def _report(self, cause: BaseException, link: _Link) -> None:
        if link.opened.done():
            _log.warning("%s was lost: %r", self._server, cause)
            return
        ours = isinstance(cause, AgentFlyError)
        link.opened.set_exception(
            cause if ours else EnvError(f"{self._server} can't be reached: {cause!r}")
        )
        link.opened.exception()  # retrieved, in case no request waits any more

    def _classified(self, error: "MCPError", link: _Link) -> AgentFlyError:
        from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS

        if error.code == INVALID_PARAMS:
            return ToolError(error.message)
        if error.code == CONNECTION_CLOSED:
            self._drop(link)
        return EnvError(f"{self._server} failed: {error.message}")


@asynccontextmanager
async def over_http(url: str, headers: Mapping[str, str] | None) -> "AsyncIterator[Client]":
    """Connect to a server over streamable HTTP."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    # Each request has its own deadline.
    limits = httpx2.Timeout(CONNECT_SECONDS, read=None)
    async with (
        httpx2.AsyncClient(headers=dict(headers or {}), timeout=limits) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


LIFETIME_SECONDS = 7 * 24 * 3600.0
"""Maximum age of a server; the next call after it starts a new one."""


@asynccontextmanager
async def over_stdio(
    command: Sequence[str], env: Mapping[str, str] | None
) -> "AsyncIterator[Client]":
    """Start a server and connect to it; it ends with the connection."""
    from mcp import Client

    async with Client(_started(command, env or {})) as client:
        yield client


@asynccontextmanager
async def _started(
    command: Sequence[str], env: Mapping[str, str]
) -> "AsyncIterator[TransportStreams]":
    """Start a server and yield its streams; MCP's own transport bypasses our process registry."""
    import anyio
    from mcp.client.stdio import get_default_environment

    child = await start(
        command,
        name=f"MCP server {command[0]}",
        lifetime=LIFETIME_SECONDS,
        # A server is foreign code: it must not see all secrets in this process's environment.
        env={**get_default_environment(), **env},
        stdin=PIPE,
        stdout=PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    to_client, from_server = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    to_server, from_client = anyio.create_memory_object_stream["SessionMessage"](0)
    async with (
        child,
        to_client,
        from_server,
        to_server,
        from_client,
        anyio.create_task_group() as pumps,
    ):
        pumps.start_soon(_read, child.stdout, to_client)
        pumps.start_soon(_write, from_client, child.stdin, to_client)
        yield from_server, to_server
        pumps.cancel_scope.cancel()


async def _read(
    stdout: asyncio.StreamReader, to_client: "MemoryObjectSendStream[SessionMessage | Exception]"
) -> None:
    import anyio

    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_client:  # closed when the server ends, which fails all pending requests
            while line := await stdout.readline():
                await to_client.send(_message(line))


def _message(line: bytes) -> "SessionMessage | Exception":
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    from_client: "MemoryObjectReceiveStream[SessionMessage]",
    stdin: asyncio.StreamWriter,
    to_client: "MemoryObjectSendStream[SessionMessage | Exception]",
) -> None:
    try:
        async for message in from_client:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(f"{text}\n".encode())
            await stdin.drain()
    except OSError:
        await to_client.aclose()  # a request that could not be sent gets no answer
