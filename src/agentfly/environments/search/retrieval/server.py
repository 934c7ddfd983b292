"""A retriever as a server, in the form of `RemoteRetriever`."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

from agentfly.environments.search.passage import Hit
from agentfly.environments.search.retrieval.remote import PATH
from agentfly.environments.search.retrieval.retriever import MAX_HITS, Retriever
from agentfly.runtime.http import require_server_packages
from agentfly.runtime.http.address import Listen

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

MAX_BYTES = 2**20
"""Of a request."""
MAX_QUERIES = 1024
"""Of one request."""
DEFAULT_HITS = 3
SEARCH_SECONDS = 300.0
"""For all queries of one request."""


class _Request(BaseModel):
    queries: list[str] = Field(max_length=MAX_QUERIES)
    topk: int | None = Field(default=None, ge=1, le=MAX_HITS)
    return_scores: bool = False


@contextmanager
def retrieval_server(
    retriever: Retriever,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
) -> Iterator[str]:
    """Serve in the background while the body runs; yield the address, which carries the token.

    Args:
        retriever: What answers.
        host: Which of this machine's addresses to listen on.
        port: 0 means any that is free.
        token: The secret that every request must carry; a new one is made if not given.
        allowed_hosts: Names by which clients may address the server, besides `host` itself and
            `localhost`.
    """
    require_server_packages("a retrieval server")
    from agentfly.runtime.http.guard import Application, BodyLimits
    from agentfly.runtime.http.server import serving_in_thread

    listen = Listen(host=host, port=port, token=token, allowed_hosts=allowed_hosts)
    limits = BodyLimits(max_bytes=MAX_BYTES)
    with serving_in_thread(Application(routes=_routes(retriever), limits=limits), listen) as url:
        yield url


def _routes(retriever: Retriever) -> "Sequence[BaseRoute]":
    from starlette.routing import Route

    from agentfly.runtime.http.messages import (
        RefusalError,
        json_answer,
        json_bytes,
        read_json,
        run_in_thread,
    )

    async def describe(request: "Request") -> "Response":
        return json_answer({"retrieve": PATH})

    async def retrieve(request: "Request") -> "Response":
        try:
            asked = _Request.model_validate(await read_json(request))
        except ValidationError as error:
            raise RefusalError(HTTPStatus.BAD_REQUEST, "BadRequest", str(error)) from error
        answer = partial(_answer, retriever, asked)
        body = await run_in_thread(answer, name="search", seconds=SEARCH_SECONDS)
        return json_bytes(body)

    return [Route("/", describe), Route(PATH, retrieve, methods=["POST"])]


def _answer(retriever: Retriever, asked: _Request) -> bytes:
    # The published server takes null for its default, too.
    k = DEFAULT_HITS if asked.topk is None else asked.topk
    found = (retriever.search(query, k) for query in asked.queries)
    rows = [[_row(hit, scored=asked.return_scores) for hit in hits] for hits in found]
    return json.dumps({"result": rows}).encode()


def _row(hit: Hit, *, scored: bool) -> dict[str, Any]:
    passage = hit.passage
    contents = f'"{passage.title}"\n{passage.text}'
    document = {"id": passage.id, "contents": contents}
    return {"document": document, "score": hit.score} if scored else document
