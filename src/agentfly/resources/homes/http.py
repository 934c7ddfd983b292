"""Instances behind HTTP: each is a session on an environment server."""

import functools
import http.client
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from agentfly.errors import ConfigError, EnvError, ToolError, boundary
from agentfly.resources import wire
from agentfly.resources.homes.remote import BrokenInstanceError, RemoteInstance, in_own_thread
from agentfly.resources.pooling import Pooling
from agentfly.runtime.invoke import is_async
from agentfly.types import Clock, EnvSpec

PAUSE_SECONDS = 0.2
"""Before a request is sent again; doubled each time."""
_SPEAKS = ("reset", "step")
_AS_THEY_WERE: dict[str, type[Exception]] = {
    "ToolError": ToolError,
    "AttributeError": AttributeError,
}
"""Errors that mean something to tools and to Python itself."""


async def make_over_http(spec: EnvSpec, pooling: Pooling, clock: Clock) -> "HttpInstance":
    """Open a session on the server."""
    del clock  # Servers live in real time.
    instance = HttpInstance(spec, pooling)
    try:
        await in_own_thread(functools.partial(instance.open, spec), f"make {spec.name}")
    except BaseException:
        await instance.end()
        raise
    return instance


class HttpInstance(RemoteInstance):
    """A session on an environment server."""

    def __init__(self, spec: EnvSpec, pooling: Pooling) -> None:
        super().__init__(spec, pooling, {})
        self._server = _Server(pooling.where)
        self._session = ""
        self._calls = 0

    def open(self, spec: EnvSpec) -> None:
        """Ask for a session, as often as it takes until the deadline."""
        deadline = time.monotonic() + self._pooling.make_seconds
        doing = f"making environment {spec.name} at {self._pooling.where}"
        with boundary(EnvError, doing):
            try:
                body = {"options": dict(spec.options)}
                opened = self._server.request("POST", "/sessions", body, deadline)
                self._session = f"/sessions/{opened['session']}"
                # As the class has it here: tools were written against that.
                self.methods = {
                    str(name): is_async(getattr(spec.factory, str(name), None) or str)
                    for name in (*opened["methods"], "close")
                }
            except BrokenInstanceError as error:
                raise EnvError(f"{doing} failed: {error}") from error

    def _exchange(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], deadline: float
    ) -> Any:
        if name == "close":
            return self._server.request("DELETE", self._session, None, deadline)
        path = f"{self._session}/{name}"
        if name not in self.methods:
            return self._server.request("GET", path, None, deadline)["value"]
        self._calls += 1
        body = {
            "number": self._calls,
            "args": [wire.to_plain(value) for value in args],
            "kwargs": {key: wire.to_plain(value) for key, value in kwargs.items()},
        }
        value = self._server.request("POST", path, body, deadline)["value"]
        return wire.observed(value) if name in _SPEAKS else value

    def _stop(self) -> None:
        """Leave it: the server ends a session that nobody asks for."""

    async def end(self) -> None:
        """Hang up."""
        self._server.close()


class _Server:
    """One connection to a server, opened anew when it breaks."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"an environment server is as 'http://host:8700', got {url!r}")
        is_safe = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if is_safe else http.client.HTTPConnection
        self._address = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None

    def request(self, verb: str, path: str, body: object, deadline: float) -> Any:
        """Send a request until it is answered: sent twice, it is done once."""
        frame = None if body is None else json.dumps(body).encode()
        trouble: Exception | None = None
        for pause in _pauses():
            try:
                status, answer = self._attempt(verb, self._prefix + path, frame, deadline)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                trouble = error
            else:
                if status != http.client.SERVICE_UNAVAILABLE:
                    return _read(status, answer)
                trouble = BrokenInstanceError("no instance is free there")
            if time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
        raise BrokenInstanceError(f"{verb} {path}: {trouble!r}") from trouble

    def close(self) -> None:
        """Hang up; the next request connects anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(
        self, verb: str, path: str, frame: bytes | None, deadline: float
    ) -> tuple[int, bytes]:
        connection = self._connection = self._connection or self._kind(self._address)
        _allow_until(connection, deadline)
        headers = {"Content-Type": "application/json"} if frame is not None else {}
        connection.request(verb, path, body=frame, headers=headers)
        response = connection.getresponse()
        parts = bytearray()
        while part := response.read1(1 << 16):
            parts += part
            _allow_until(connection, deadline)
            if len(parts) > wire.MAX_BYTES:
                raise http.client.HTTPException(f"more than {wire.MAX_BYTES} bytes")
        response.close()  # Or the connection could not be used again.
        return response.status, bytes(parts)


def _pauses() -> Iterator[float]:
    pause = PAUSE_SECONDS
    while True:
        yield pause
        pause *= 2


def _allow_until(connection: http.client.HTTPConnection, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no whole answer in time")
    connection.timeout = left
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _read(status: int, answer: bytes) -> Any:
    if status == http.client.NO_CONTENT:
        return None
    try:
        plain = json.loads(answer)
        if status < http.client.BAD_REQUEST:
            return plain
        kind, message = plain["error"]["kind"], plain["error"]["message"]
    except (ValueError, TypeError, KeyError) as error:
        raise BrokenInstanceError(f"the server sent rubbish: {answer[:200]!r}") from error
    if status == http.client.UNPROCESSABLE_ENTITY:
        raise (
            _AS_THEY_WERE[kind](message)
            if kind in _AS_THEY_WERE
            else RuntimeError(f"{kind}: {message}")
        )
    raise BrokenInstanceError(f"the server answered {status}: {message}")
