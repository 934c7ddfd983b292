"""Start and stop a server, in the running event loop or in a thread; limit its connections."""

import asyncio
import errno
import logging
import resource
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from http import HTTPStatus
from typing import Any

import h11
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from agentfly.errors import ConfigError
from agentfly.runtime.http.address import Listen, url_of, with_token
from agentfly.runtime.http.guard import MAX_HEAD_BYTES, Application, Guard
from agentfly.runtime.http.messages import error_body
from agentfly.runtime.ordered import one_error

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


KEEP_ALIVE_SECONDS = 300
"""A connection without a request for this long is closed: between two steps, a model thinks."""
STOP_SECONDS = 5
"""Requests under way have this long when a server is stopped; then they are cancelled."""
BACKLOG = 1024
_PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)
_OTHER_PORT = "Choose another port; 0 takes any that is free"
_OTHER_HOST = "Choose an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"


@asynccontextmanager
async def serving(application: Application, listen: Listen) -> AsyncIterator[str]:
    """Serve in the running event loop while the body runs; yield the address with its token."""
    with closing(_bound(listen)) as listener:
        access = listen.access()
        server = _server(Guard(application, access))
        with one_error():
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(server.serve(sockets=[listener]), name="http server")
                try:
                    # Connections that come before it accepts them wait in the listener's backlog.
                    yield with_token(url_of(listen.host, listener.getsockname()[1]), access.token)
                finally:
                    server.should_exit = True
                    await _ended(server, running)


@contextmanager
def serving_in_thread(application: Application, listen: Listen) -> Iterator[str]:
    """Serve in a thread of its own while the body runs; yield the address with its token."""
    address: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stopped = asyncio.Event()

    async def serve() -> None:
        try:
            async with serving(application, listen) as url:
                address.set_result(url)
                await stopped.wait()
        except BaseException as error:
            if address.done():
                raise
            address.set_exception(error)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="agentfly:http", daemon=True)
    thread.start()
    try:
        yield address.result()
    finally:
        with suppress(RuntimeError):  # It has ended, and its loop with it.
            loop.call_soon_threadsafe(stopped.set)
        thread.join()


class _Server(Server):
    """uvicorn's server, which leaves signals to its caller."""

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        return nullcontext()


def _server(app: Guard) -> Server:
    config = Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        proxy_headers=False,  # Any client could send them.
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    return _Server(config)


async def _ended(server: Server, running: asyncio.Task[None]) -> None:
    """Wait for the end, and cut the connections that are left even then."""
    try:
        await asyncio.wait([running])
    finally:
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        if tasks := list(server.server_state.tasks):
            await asyncio.wait(tasks, timeout=STOP_SECONDS)


def _bound(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server(
            (listen.host, listen.port), family=family, backlog=BACKLOG, reuse_port=False
        )
    except OSError as error:
        way_out = _OTHER_PORT if error.errno in _PORT_ERRORS else _OTHER_HOST
        raise ConfigError(
            f"can't listen on {listen.host}:{listen.port}: {error}. {way_out}"
        ) from error
