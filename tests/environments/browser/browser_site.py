"""A small web server for tests: pages by path, and what was asked for."""

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from agentfly.environments.browser import BrowserSession
from agentfly.types import Seed, Step, Task

Body = str | bytes | Callable[[BaseHTTPRequestHandler], None]


def answer(body: bytes, headers: Mapping[str, str]) -> Body:
    """Return a page that is sent with these headers."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


class LocalSite:
    """Pages on 127.0.0.1, added by tests."""

    def __init__(self) -> None:
        self.pages: dict[str, Body] = {}
        self.asked: list[str] = []
        """Paths that were requested."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                body = site.pages.get(self.path.partition("?")[0])
                if callable(body):
                    body(self)
                    return
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(body.encode() if isinstance(body, str) else body or b"")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def task(self, path: str, body: Body, check: str = "false") -> Task:
        """Add a page, and return the task that begins there."""
        self.pages[path] = body
        row = {"start": self.address + path, "instruction": "Look around.", "check": check}
        return Task.from_row(row)


def redirect(target: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return a page that sends the browser elsewhere."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.end_headers()

    return respond


async def start(session: BrowserSession, task: Task) -> Step:
    """Open a task's first page."""
    return await session.reset(task, Seed(0))


def ids_of(step: Step) -> Callable[[str], int]:
    """Return a function that finds the number of a line in an observation."""

    def find(part: str) -> int:
        line = next(line for line in step.observation.splitlines() if part in line)
        return int(line.removeprefix("+ ")[1:].partition("]")[0])

    return find
