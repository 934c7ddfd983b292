"""A proxy through which pages of the network are loaded: it connects only where the rules allow.

Interception in the browser decides first, but it does not see web sockets and the like. The proxy
is the only way out, so nothing passes it by; it also resolves names itself, so that a name that
points to a public server can't point into the local network later.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from agentfly.environments.browser.address import DEFAULT_PORTS, AddressRules
from agentfly.runtime.public_address import Address, is_public, resolve_host

HEAD_BYTES = 1 << 16
HEAD_SECONDS = 10.0
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 60.0
"""A connection without any bytes for this long is closed."""
MAX_BYTES = 64 << 20
"""Maximum bytes that one connection brings into the browser."""
CHUNK = 1 << 16

_public_hosts = set[str]()
"""Hosts that have had a public address. From then on they are not in a local network, for any
chain: whoever owns a name decides where it points, and may change that."""


class FilterProxy:
    """An HTTP proxy on the loopback interface, on the running event loop."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self._server: asyncio.Server | None = None
        self._refused: set[tuple[str, int]] = set()
        """Host and port of the servers that refused a connection."""

    @property
    def address(self) -> str:
        """Address for Chromium."""
        assert self._server is not None, "entered as a context manager"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    def refusal(self, url: str) -> str | None:
        """Return that the server of an address refused a connection, None if it did not."""
        host, port = host_and_port(url)
        if (host, port) not in self._refused:
            return None
        return f"{host}:{port} refuses the connection: is the server running?"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; whatever goes wrong with it ends only this one."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, first = read_head(head)
            there, back = await self._connect(*target)
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            # Where a server can't be reached, an answer of ours would be shown as its page.
            if not isinstance(error, OSError):
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            back.write(first)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, back))
                group.create_task(_pump(there, writer))
        finally:
            writer.close()
            back.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an allowed server; ValueError for any other."""
        if not self._rules.may_connect(host, port):
            raise ValueError(f"{host}:{port} is not allowed")
        async with asyncio.timeout(CONNECT_SECONDS):
            addresses = self._reachable(host, port, await resolve_host(host, port))
            problems = list[OSError]()
            for address in addresses:
                try:
                    return await asyncio.open_connection(str(address), port)
                except OSError as error:
                    problems.append(error)
        if any(isinstance(problem, ConnectionRefusedError) for problem in problems):
            self._refused.add((host, port))
        raise OSError(f"{host}:{port} can't be reached: {problems}")

    def _reachable(self, host: str, port: int, addresses: Sequence[Address]) -> list[Address]:
        """Return the addresses that may be reached; ValueError if there are none."""
        public = [address for address in addresses if is_public(address)]
        if public:
            _public_hosts.add(host)
        elif host not in _public_hosts and self._rules.names_server(host, port):
            return list(addresses)
        if not public:
            raise ValueError(f"{host} is in a local network")
        return public


def read_head(head: bytes) -> tuple[str, tuple[str, int], bytes]:
    r"""Read a request to a proxy: its method, its server, and what is sent on to that server.

    >>> read_head(b"GET http://a.test:81/x?y HTTP/1.1\r\n\r\n")
    ('GET', ('a.test', 81), b'GET /x?y HTTP/1.1\r\nConnection: close\r\n\r\n')
    """
    line, *headers = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, url, version = line.split(" ")
    parts = urlsplit(f"//{url}" if method == "CONNECT" else url)
    server = host_and_port(parts.geturl())
    path = parts._replace(scheme="", netloc="").geturl() or "/"
    kept = [one for one in headers if not one.lower().startswith(("connection:", "proxy-"))]
    sent = "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close", "", ""])
    return method, server, sent.encode("latin-1")


def host_and_port(url: str) -> tuple[str, int]:
    """Return the server of an address; ValueError if it names none."""
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        raise ValueError(f"no server in {url!r}")
    return parts.hostname, port


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until the end, the limit, or a long silence."""
    total = 0
    with suppress(OSError, TimeoutError):
        while total < MAX_BYTES:
            async with asyncio.timeout(IDLE_SECONDS):
                chunk = await reader.read(CHUNK)
                if not chunk:
                    break
                total += len(chunk)
                writer.write(chunk)
                await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof() if writer.can_write_eof() else writer.close()
