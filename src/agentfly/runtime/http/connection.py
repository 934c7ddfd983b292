"""A connection to one of our servers, which no client can hold for nothing."""

import asyncio
import logging
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from agentfly.runtime.http.messages import error_body

HEAD_SECONDS = 10.0
"""Time limit for the request line and headers, from the first byte or from the connection."""
STALL_SECONDS = 60.0
"""Time limit for a client that stops reading its answer; then the connection is cut."""
LINGER_SECONDS = 5.0
"""Time limit for the last bytes of an answer, once a connection is being closed."""
MAX_CONNECTIONS = 1024

# Nothing that a client sends is worth a line in the log.
_QUIET = logging.getLogger(f"{__name__}.uvicorn")
_QUIET.setLevel(logging.CRITICAL)


class Connection(H11Protocol):
    """HTTP/1.1 by uvicorn, with a deadline for everything that a client can delay."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _QUIET
        self.access_log = False  # Addresses may carry the token.
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        # asyncio leaves it out for listeners that were made elsewhere. An answer goes out in two
        # parts, and the second would wait 40 ms for the first to be acknowledged.
        end = transport.get_extra_info("socket")
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > max_connections():
            self._end_with(HTTPStatus.SERVICE_UNAVAILABLE, "TooManyConnections", "ask again later")
        else:
            self._arm("head", HEAD_SECONDS, self._head_is_late)

    def data_received(self, data: bytes) -> None:
        """Take what came; between two requests it is the beginning of the next one's head."""
        if self._is_ending():
            return
        super().data_received(data)
        if self._is_answering() or self._is_ending() or self.transport.is_closing():
            self._disarm("head")
        elif "head" not in self._timers:
            self._arm("head", HEAD_SECONDS, self._head_is_late)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the last bytes to be read."""
        super().on_response_complete()
        self._linger()

    def pause_writing(self) -> None:
        """Begin to wait for a client that reads too slowly."""
        super().pause_writing()
        self._arm("stall", STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has read enough."""
        super().resume_writing()
        self._disarm("stall")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        for name in list(self._timers):
            self._disarm(name)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing was asked for long."""
        with suppress(h11.LocalProtocolError):
            super().timeout_keep_alive_handler()
        self.transport.close()
        self._linger()

    def shutdown(self) -> None:
        """Close after the answer that is under way, as the server is being stopped."""
        if not self._is_ending():
            with suppress(h11.LocalProtocolError):
                super().shutdown()
        if not self._is_answering():
            self.transport.close()
        self._linger()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; h11 is asked what exactly is wrong."""
        error = sys.exception()
        status = HTTPStatus.BAD_REQUEST
        if isinstance(error, h11.RemoteProtocolError):
            status, msg = HTTPStatus(error.error_status_hint), str(error)
        self._end_with(status, "BadRequest", msg[:200])

    def _should_upgrade(self) -> bool:
        return False  # To WebSockets, which no server here supports.

    def _head_is_late(self) -> None:
        message = f"the headers did not arrive within {HEAD_SECONDS:g} s"
        self._end_with(HTTPStatus.REQUEST_TIMEOUT, "HeadTimeout", message)

    def _is_answering(self) -> bool:
        # Before the first request there is no cycle, although uvicorn's types say otherwise.
        return not getattr(self.cycle, "response_complete", True)

    def _is_ending(self) -> bool:
        return "linger" in self._timers

    def _end_with(self, status: HTTPStatus, kind: str, message: str) -> None:
        """Answer, and close once the client has hung up.

        A connection that is closed with something unread breaks before the answer is read.
        """
        if self._is_ending() or self.transport.is_closing():
            return
        self._disarm("head")
        body = error_body(kind, message)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        try:
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            self.transport.close()  # Another answer is under way: it is all that the client gets.
        else:
            self.transport.write_eof()
            self.flow.resume_reading()
        self._arm("linger", LINGER_SECONDS, self.transport.abort)

    def _linger(self) -> None:
        """Cut the connection if its last bytes are not read: closing alone would wait forever."""
        if self.transport.is_closing() and not self._is_ending():
            self._arm("linger", LINGER_SECONDS, self.transport.abort)

    def _arm(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._disarm(name)
        self._timers[name] = self.loop.call_later(seconds, action)

    def _disarm(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()


def max_connections() -> int:
    """Return how many there may be: never so many that the process can't open a file."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else min(MAX_CONNECTIONS, soft // 2)
