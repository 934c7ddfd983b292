"""Starting and stopping a server, in the running event loop or in a thread of its own."""

import asyncio
import errno
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress

from uvicorn import Config, Server

from agentfly.errors import ConfigError
from agentfly.runtime.http.address import Listen, url_of, with_token
from agentfly.runtime.http.connection import Connection
from agentfly.runtime.http.guard import MAX_HEAD_BYTES, Application, Guard
from agentfly.runtime.ordered import one_error

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
