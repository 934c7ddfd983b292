"""An MCP server as a child process, spoken to in lines of JSON over its pipes."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from agentfly.runtime.process import PIPE, start

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

LIFETIME_SECONDS = 7 * 24 * 3600.0
"""A server that is older is ended; the next call starts a new one."""


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
    """A transport, in the words of MCP. Its own would start the process past our registry."""
    import anyio
    from mcp.client.stdio import get_default_environment

    child = await start(
        command,
        name=f"MCP server {command[0]}",
        lifetime=LIFETIME_SECONDS,
        # A server is foreign code: it sees what it is given, not all secrets of this process.
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
        async with to_client:  # closed at the server's end, which fails all that wait for answers
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
        await to_client.aclose()  # nobody will answer what could not be said
