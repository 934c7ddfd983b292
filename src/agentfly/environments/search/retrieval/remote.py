r"""A retriever behind HTTP, in the form that Search-R1's server speaks (arXiv:2503.09516).

POST /retrieve {"queries": ["Who barks?"], "topk": 3, "return_scores": true}
{"result": [[{"document": {"id": "7", "contents": "\"Dogs\"\nDogs bark."}, "score": 11.5}]]}
"""

import hashlib
from typing import Annotated

from pydantic import BaseModel, BeforeValidator

from agentfly.environments.search.client import SECONDS, Client
from agentfly.environments.search.corpus.rows import split_contents
from agentfly.environments.search.passage import Hit, Passage
from agentfly.environments.search.retrieval.retriever import MAX_HITS, MAX_QUERY, replace_surrogates
from agentfly.errors import EnvError
from agentfly.runtime.http.address import split_token
from agentfly.runtime.http_client import Call, Endpoint
from agentfly.runtime.http_retry import Retry

PATH = "/retrieve"

_Id = Annotated[str, BeforeValidator(lambda one: "" if one is None else str(one))]
"""Servers count their documents, or name them, or do neither."""


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
    """Asks a server.

    Args:
        server: Its address, such as `http://localhost:8001` or one with `/?token=...` behind it, or
            an `Endpoint`.
        seconds: For one query with all attempts.
        token: The server's secret, if it has one and the address does not carry it.
    """

    def __init__(
        self, server: str | Endpoint, *, seconds: float = SECONDS, token: str | None = None
    ) -> None:
        if isinstance(server, str):
            url, own_token = split_token(server)
            token = token or own_token
            server = Endpoint(url=url.removesuffix(PATH), retry=Retry(attempts=4))
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = Client(server, seconds=seconds)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k`, as the server ranks them; EnvError if it can't be had."""
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
