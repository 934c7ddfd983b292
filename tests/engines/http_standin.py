"""A small HTTP/1.1 server on a real socket, whose handler may misbehave as it likes."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.patience import until


@dataclass(frozen=True, kw_only=True)
class Received:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    """Parsed JSON; None where there was no body."""


@dataclass(eq=False)
class Reply:
    """What a handler writes to."""

    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader
    keep_alive: bool = True

    async def json(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        await self.body(json.dumps(value).encode(), status, headers)

    async def body(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.head(status, {"Content-Length": str(len(body)), **(headers or {})})
        await self.send(body)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in headers.items())]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def start_events(self) -> None:
        self.keep_alive = False
        self.head(200, {"Content-Type": "text/event-stream", "Connection": "close"})

    async def event(self, value: object) -> None:
        data = value if isinstance(value, str) else json.dumps(value)
        await self.send(f"data: {data}\n\n".encode())

    def reset(self) -> None:
        """Break the connection the hard way: the peer sees a reset."""
        self.keep_alive = False
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    @property
    def hung_up(self) -> bool:
        """Whether the client has closed its side."""
        closed = self.reader.at_eof() or self.reader.exception() is not None
        return closed or self.writer.is_closing()

    async def until_hung_up(self) -> None:
        """Wait until the client closes its side."""
        self.keep_alive = False
        await self.reader.read()


Handler = Callable[[Received, Reply], Awaitable[None]]


@dataclass(eq=False)
class StandIn:
    handler: Handler
    received: list[Received] = field(default_factory=list)
    port: int = 0
    _connections: dict[asyncio.Task[Any], Reply] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until_received(self, count: int) -> None:
        await until(lambda: len(self.received) >= count)

    async def all_hung_up(self) -> bool:
        """Wait until the client has closed every connection; tell whether it did."""
        with suppress(TimeoutError):
            await until(lambda: all(reply.hung_up for reply in self._connections.values()))
            return True
        return False

    async def start(self, port: int = 0) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        reply = self._connections[task] = Reply(writer, reader)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while reply.keep_alive and (received := await _read(reader)):
                    self.received.append(received)
                    await self.handler(received, reply)
        finally:
            del self._connections[task]
            writer.close()

    async def hang_up(self) -> None:
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@asynccontextmanager
async def standing_in(handler: Handler) -> AsyncIterator[StandIn]:
    stand_in = StandIn(handler)
    server = await stand_in.start()
    try:
        yield stand_in
    finally:
        server.close()
        await stand_in.hang_up()


async def _read(reader: asyncio.StreamReader) -> Received | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().strip().split("\r\n")
    method, target, _ = first.split()
    headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Received(
        method=method,
        path=parts.path,
        query=dict(parse_qsl(parts.query)),
        headers=headers,
        body=json.loads(raw) if raw else None,
    )
