"""Instances behind HTTP: each is a session on an environment server."""

import functools
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from agentfly.errors import ConfigError, EnvError, ToolError, boundary
from agentfly.resources import http_protocol
from agentfly.resources.placement.instance import (
    BrokenInstanceError,
    RemoteInstance,
    in_manager_thread,
)
from agentfly.resources.pooling import Pooling
from agentfly.runtime.invoke import is_async
from agentfly.types import Clock, EnvSpec

PAUSE_SECONDS = 0.2
"""Before a request is sent again; doubled each time."""
_STEP_METHODS = ("reset", "step")
_ASK_AGAIN = (http.client.SERVICE_UNAVAILABLE, http.client.TOO_MANY_REQUESTS)
_SETTINGS_ERRORS = (
    http.client.BAD_REQUEST,
    http.client.UNAUTHORIZED,
    http.client.FORBIDDEN,
)
_KEPT_TYPES: dict[str, type[Exception]] = {
    "ToolError": ToolError,
    "AttributeError": AttributeError,
}
"""Errors that keep their type here, because tools or Python itself handle them."""


async def make_over_http(spec: EnvSpec, pooling: Pooling, clock: Clock) -> "HttpInstance":
    """Open a session on the server."""
    del clock  # Servers live in real time.
    instance = HttpInstance(spec, pooling)
    try:
        await in_manager_thread(functools.partial(instance.open, spec), f"make {spec.name}")
    except BaseException:
        await instance.end()
        raise
    return instance


class HttpInstance(RemoteInstance):
    """A session on an environment server."""

    def __init__(self, spec: EnvSpec, pooling: Pooling) -> None:
        super().__init__(spec, pooling, {})
        self._server = _Server(pooling.where, pooling.token)
        self._session = ""
        self._calls = 0

    def open(self, spec: EnvSpec) -> None:
        """Ask for a session, as often as it takes until the deadline."""
        deadline = time.monotonic() + self._pooling.make_seconds
        doing = f"making environment {spec.name} at {self._pooling.where}"
        with boundary(EnvError, doing):
            try:
                body = {"options": {k: http_protocol.plain_option(v) for k, v in spec.options}}
                opened = self._server.request("POST", "/sessions", body, deadline, "a session")
                self._session = f"/sessions/{opened['session']}"
                # As the class has it here: tools were written against that.
                self.methods = {
                    str(name): is_async(getattr(spec.factory, str(name), None) or str)
                    for name in (*opened["methods"], "close")
                }
            except BrokenInstanceError as error:
                kind = ConfigError if _is_settings_error(error) else EnvError
                raise kind(f"{doing} failed: {error}") from error

    def _exchange(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], deadline: float
    ) -> Any:
        if name == "close":
            return self._server.request("DELETE", self._session, None, deadline, name)
        path = f"{self._session}/{quote(name, safe='')}"
        if name not in self.methods:
            return self._server.request("GET", path, None, deadline, name)["value"]
        body = {
            "number": self._calls + 1,
            "args": [http_protocol.to_plain(value) for value in args],
            "kwargs": {key: http_protocol.to_plain(value) for key, value in kwargs.items()},
        }
        frame = json.dumps(body, allow_nan=False).encode()  # What can't be sent is not a call.
        self._calls += 1
        value = self._server.request("POST", path, frame, deadline, name)["value"]
        return http_protocol.observed(value) if name in _STEP_METHODS else value

    def _stop(self) -> None:
        """Do nothing: the server ends a session without requests."""

    async def end(self) -> None:
        """Disconnect."""
        self._server.close()


class _Server:
    """One connection to a server, opened again when it breaks."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ConfigError(
                f"an environment server is as 'http://host:8700/?token=...', got {url!r}"
            )
        is_safe = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if is_safe else http.client.HTTPConnection
        self._address = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connection: http.client.HTTPConnection | None = None

    def request(
        self,
        verb: str,
        path: str,
        body: Mapping[str, object] | bytes | None,
        deadline: float,
        what: str,
    ) -> Any:
        """Send a request until it is answered: sent twice, it is done once.

        Args:
            verb: The HTTP method.
            path: Secret, for it names the session.
            body: As an object, or as JSON already.
            deadline: Of `time.monotonic`.
            what: What to call it in messages.
        """
        frame = json.dumps(body).encode() if isinstance(body, Mapping) else body
        trouble: Exception | None = None
        for pause in _pauses():
            try:
                status, answer = self._attempt(verb, self._prefix + path, frame, deadline)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                trouble = error
            else:
                if status not in _ASK_AGAIN:
                    return _read(status, answer)
                trouble = BrokenInstanceError(f"no instance is free there ({_message_in(answer)})")
            if time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
        raise BrokenInstanceError(f"{what}: {trouble!r}") from trouble

    def close(self) -> None:
        """Disconnect; the next request connects again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(
        self, verb: str, path: str, frame: bytes | None, deadline: float
    ) -> tuple[int, bytes]:
        connection = self._connection = self._connection or self._kind(self._address)
        _allow_until(connection, deadline)
        kind = {} if frame is None else {"Content-Type": "application/json"}
        connection.request(verb, path, body=frame, headers={**self._headers, **kind})
        response = connection.getresponse()
        parts = bytearray()
        while part := response.read1(1 << 16):
            parts += part
            _allow_until(connection, deadline)
            if len(parts) > http_protocol.MAX_BYTES:
                raise http.client.HTTPException(f"more than {http_protocol.MAX_BYTES} bytes")
        response.close()  # Or the connection could not be used again.
        if response.will_close:
            self.close()
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


class _RefusedError(BrokenInstanceError):
    """The server refused the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the server answered {status}: {message}")
        self.status = status


def _is_settings_error(error: BrokenInstanceError) -> bool:
    """Return whether it fails again until a person changes the token, address or options."""
    return isinstance(error, _RefusedError) and error.status in _SETTINGS_ERRORS


def _read(status: int, answer: bytes) -> Any:
    if status == http.client.NO_CONTENT:
        return None
    try:
        plain = json.loads(answer)
        if status < http.client.BAD_REQUEST:
            return plain
        kind, message = str(plain["error"]["kind"]), str(plain["error"]["message"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BrokenInstanceError(
            f"the server's answer is not of the protocol: {answer[:200]!r}"
        ) from error
    if status == http.client.UNPROCESSABLE_ENTITY:
        raise (
            _KEPT_TYPES[kind](message)
            if kind in _KEPT_TYPES
            else RuntimeError(f"{kind}: {message}")
        )
    raise _RefusedError(status, message)


def _message_in(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"]["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no reason given"
