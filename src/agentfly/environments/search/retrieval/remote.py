r"""Retrieval over HTTP, client and server, by the protocol of Search-R1 (arXiv:2503.09516).

POST /retrieve {"queries": ["Who barks?"], "topk": 3, "return_scores": true}
{"result": [[{"document": {"id": "7", "contents": "\"Dogs\"\nDogs bark."}, "score": 11.5}]]}
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from agentfly.environments.search.blocking_client import SECONDS, BlockingClient
from agentfly.environments.search.corpus.readers import split_contents
from agentfly.environments.search.retriever import (
    MAX_HITS,
    MAX_QUERY,
    Hit,
    Passage,
    Retriever,
    replace_surrogates,
)
from agentfly.errors import EnvError
from agentfly.runtime.http import require_server_packages
from agentfly.runtime.http.address import Listen, split_token
from agentfly.runtime.http_client import Call, Endpoint
from agentfly.runtime.http_retry import Retry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

PATH = "/retrieve"
MAX_BYTES = 2**20
"""Maximum size of a request."""
MAX_QUERIES = 1024
"""Maximum number of queries in a request."""
DEFAULT_HITS = 3
SEARCH_SECONDS = 300.0
"""Time limit of all queries of a request."""

_Id = Annotated[str, BeforeValidator(lambda one: "" if one is None else str(one))]
"""Id of a document: servers send a number, a name or none."""


class _Document(BaseModel):
    id: _Id = ""
    title: str | None = None
    contents: str | None = None
    text: str | None = None

    def passage(self) -> Passage:
        title, text = split_contents(self.contents or self.text or "")
        known_by = self.id or hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return Passage(id=known_by, title=self.title or title, text=text)


class _Scored(BaseModel):
    document: _Document
    score: float = 0.0


class _Answer(BaseModel):
    result: list[list[_Scored]]


class RemoteRetriever:
    """A retriever that queries a server.

    Args:
        server: Its address, such as `http://localhost:8001`, with or without `/?token=...`, or an
            `Endpoint`.
        seconds: Time limit of one query with all retries.
        token: The server's token, if it has one that is not in the address.
    """

    def __init__(
        self, server: str | Endpoint, *, seconds: float = SECONDS, token: str | None = None
    ) -> None:
        if isinstance(server, str):
            url, own_token = split_token(server)
            token = token or own_token
            server = Endpoint(url=url.removesuffix(PATH), retry=Retry(attempts=4))
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = BlockingClient(server, seconds=seconds)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the server's best `k` hits; EnvError if it does not answer."""
        if k < 1 or not query.strip():
            return []
        asked = [replace_surrogates(query[:MAX_QUERY])]
        body = {"queries": asked, "topk": min(k, MAX_HITS), "return_scores": True}
        call = Call(path=PATH, body=body, headers=self._headers)
        answer = self._client.ask(call, _Answer, 'a "result"')
        if len(answer.result) != 1:
            raise EnvError(f"the server gave {len(answer.result)} results for one query")
        found = answer.result[0][:k]
        return [Hit(passage=one.document.passage(), score=one.score) for one in found]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


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
    """Serve a retriever in the background; yield the address, which contains the token.

    Args:
        retriever: Answers the queries.
        host: Address to listen on.
        port: 0 means any free port.
        token: Token that every request must contain; generated if not given.
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
    # The published server also accepts null for the default.
    k = DEFAULT_HITS if asked.topk is None else asked.topk
    found = (retriever.search(query, k) for query in asked.queries)
    rows = [[_row(hit, scored=asked.return_scores) for hit in hits] for hits in found]
    return json.dumps({"result": rows}).encode()


def _row(hit: Hit, *, scored: bool) -> dict[str, Any]:
    passage = hit.passage
    contents = f'"{passage.title}"\n{passage.text}'
    document = {"id": passage.id, "contents": contents}
    return {"document": document, "score": hit.score} if scored else document
