"""A small HTTP server of the standard library, in threads beside whatever else goes on."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentfly.errors import ConfigError

_log = logging.getLogger(__name__)


class Handler(BaseHTTPRequestHandler):
    """One connection; what a server needs is put into attributes by `listening`."""

    protocol_version = "HTTP/1.1"
    timeout = 60.0
    """A connection without a request for this long is closed."""
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # An answer goes out as one piece.

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: what goes wrong is told to the client."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def handle_error(self, request: object, client_address: object) -> None:
        """Note that a client went away in the middle of an answer."""
        _log.debug("the connection of %s broke", client_address, exc_info=True)


@contextmanager
def listening(handler: type[Handler], *, host: str, port: int, **attributes: Any) -> Iterator[str]:
    """Serve in the background while the body runs; yield the address.

    Args:
        handler: Answers requests.
        host: Which of this machine's addresses to listen on.
        port: 0 means any that is free.
        attributes: What the handler's methods find in `self`.
    """
    made = type(handler.__name__, (handler,), attributes)
    try:
        server = _Server((host, port), made)
    except OSError as error:
        raise ConfigError(
            f"can't listen on {host}:{port}: {error}. Choose another port; 0 takes any that is free"
        ) from error
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
