"""A chat server in a thread that answers sums, rightly or wrongly by a rule of the test."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LEVELS = ("odd", "even")
Answer = Callable[[str, int], str | None]
"""Answers a question at its n-th asking; None refuses the request."""


@dataclass
class ChatServer:
    answer: Answer
    models: tuple[str, ...] = ("sums-1",)
    asked: dict[str, int] = field(default_factory=dict)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> int:
        return sum(self.asked.values())

    def reply(self, body: dict[str, Any]) -> dict[str, Any] | None:
        question = body["messages"][-1]["content"]
        number = self.asked[question] = self.asked.get(question, 0) + 1
        said = self.answer(question, number)
        usage = {"prompt_tokens": 10, "completion_tokens": 3}
        return (said and {"choices": [{"message": {"content": said}}], "usage": usage}) or None


def right(question: str, number: int) -> str:
    one, other = map(int, re.findall(r"\d+", question))
    return f"It is {one + other}."


def sums(count: int) -> list[dict[str, str]]:
    """Rows of which every second one is `even`."""
    return [
        {
            "question": f"What is {i}+{i + 1}?",
            "answer": str(2 * i + 1),
            "level": ["odd", "even"][i % 2],
        }
        for i in range(count)
    ]


@contextmanager
def chat_server(answer: Answer = right, **more: Any) -> Iterator[ChatServer]:
    server = ChatServer(answer, **more)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"data": [{"id": name} for name in server.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                said = server.reply(body)
            self._send(said or {"error": "no"}, 200 if said else 400)

        def _send(self, value: object, status: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
