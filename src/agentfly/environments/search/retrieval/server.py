"""A retriever as a server, in the form of `RemoteRetriever`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field

from agentfly.environments.search.passage import Hit
from agentfly.environments.search.retrieval.remote import PATH
from agentfly.environments.search.retrieval.retriever import MAX_HITS, Retriever
from agentfly.runtime.http_server import Handler, listening

MAX_BYTES = 2**20
"""Of a request."""
MAX_QUERIES = 1024
"""Of one request."""


class _Request(BaseModel):
    queries: list[str] = Field(max_length=MAX_QUERIES)
    topk: int = Field(default=3, ge=1, le=MAX_HITS)
    return_scores: bool = False


@contextmanager
def retrieval_server(
    retriever: Retriever, *, host: str = "127.0.0.1", port: int = 0
) -> Iterator[str]:
    """Serve in the background while the body runs; yield the address.

    There is no password: whoever reaches the port can search.

    Args:
        retriever: What answers.
        host: Which of this machine's addresses to listen on.
        port: 0 means any that is free.
    """
    with listening(_Handler, host=host, port=port, retriever=retriever) as address:
        yield address


class _Handler(Handler):
    """One connection."""

    retriever: Retriever

    def do_POST(self) -> None:
        try:
            body = self._body()  # Read in any case: the next request comes behind it.
            if self.path != PATH:
                self._send(HTTPStatus.NOT_FOUND, {"error": f"POST to {PATH}, not {self.path}"})
                return
            # ValidationError is a ValueError that says what is wrong.
            request = _Request.model_validate_json(body)
        except ValueError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            return
        self._send(HTTPStatus.OK, {"result": [self._found(q, request) for q in request.queries]})

    def do_GET(self) -> None:
        self._send(HTTPStatus.OK, {"retrieve": PATH})

    def _body(self) -> bytes:
        told = self.headers.get("Content-Length", "0")
        if not (told.isascii() and told.isdecimal() and 0 < int(told[:20]) <= MAX_BYTES):
            self.close_connection = True
            raise ValueError(f"a body has 1 to {MAX_BYTES} bytes, got {told:.20}")
        return self.rfile.read(int(told))

    def _found(self, query: str, request: _Request) -> list[Any]:
        hits = self.retriever.search(query, request.topk)
        return [_row(hit, scored=request.return_scores) for hit in hits]

    def _send(self, status: HTTPStatus, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _row(hit: Hit, *, scored: bool) -> dict[str, Any]:
    passage = hit.passage
    contents = f'"{passage.title}"\n{passage.text}'
    document = {"id": passage.id, "contents": contents}
    return {"document": document, "score": hit.score} if scored else document
