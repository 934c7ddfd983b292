"""Brave Search: https://api-dashboard.search.brave.com."""

from pydantic import BaseModel

from agentfly.environments.search.web.provider import Provider, WebResult, strip_tags
from agentfly.runtime.http_client import Call

MAX_RESULTS = 20
"""Maximum number of results of a request; more are refused."""


class _Found(BaseModel):
    url: str
    title: str = ""
    description: str = ""


class _Web(BaseModel):
    results: list[_Found] = []


class _Answer(BaseModel):
    type: str
    """Always present; `web` is missing if nothing was found."""
    web: _Web = _Web()

    def results(self) -> list[WebResult]:
        return [
            WebResult(title=strip_tags(x.title), url=x.url, snippet=strip_tags(x.description))
            for x in self.web.results
        ]


def _call(query: str, k: int, key: str) -> Call:
    return Call(
        method="GET",
        path="/res/v1/web/search",
        query={"q": query, "count": str(min(k, MAX_RESULTS))},
        headers={"X-Subscription-Token": key, "Accept": "application/json"},
    )


BRAVE = Provider(
    name="brave",
    url="https://api.search.brave.com",
    key_env="BRAVE_API_KEY",
    call=_call,
    answer=_Answer,
    max_query=400,
    max_words=50,
)
