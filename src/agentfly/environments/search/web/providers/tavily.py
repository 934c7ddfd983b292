"""Tavily: https://tavily.com."""

from pydantic import BaseModel, Field

from agentfly.environments.search.web.provider import Provider, WebResult
from agentfly.runtime.http_client import Call

MAX_RESULTS = 20
"""Maximum number of results of a request; more are refused."""


class _Found(BaseModel):
    url: str
    title: str = ""
    content: str = ""


class _Answer(BaseModel):
    found: list[_Found] = Field(alias="results")

    def results(self) -> list[WebResult]:
        return [WebResult(title=x.title, url=x.url, snippet=x.content) for x in self.found]


def _call(query: str, k: int, key: str) -> Call:
    return Call(
        path="/search",
        body={"query": query, "max_results": min(k, MAX_RESULTS)},
        headers={"Authorization": f"Bearer {key}"},
    )


TAVILY = Provider(
    name="tavily",
    url="https://api.tavily.com",
    key_env="TAVILY_API_KEY",
    call=_call,
    answer=_Answer,
    max_query=400,
)
