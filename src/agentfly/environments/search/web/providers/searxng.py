"""SearXNG, a self-hosted server; its settings must allow the format `json`."""

from pydantic import BaseModel, Field

from agentfly.environments.search.web.provider import Provider, WebResult
from agentfly.runtime.http_client import Call


class _Found(BaseModel):
    url: str
    title: str = ""
    content: str | None = None


class _Answer(BaseModel):
    found: list[_Found] = Field(alias="results")

    def results(self) -> list[WebResult]:
        return [WebResult(title=x.title, url=x.url, snippet=x.content or "") for x in self.found]


def _call(query: str, k: int, key: str) -> Call:
    del k, key  # It returns one page of results, and needs no key.
    return Call(method="GET", path="/search", query={"q": query, "format": "json"})


SEARXNG = Provider(name="searxng", url=None, key_env=None, call=_call, answer=_Answer)
