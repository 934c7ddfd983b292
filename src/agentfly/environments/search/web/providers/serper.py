"""Serper, which returns Google results: https://serper.dev."""

from pydantic import BaseModel

from agentfly.environments.search.web.provider import Provider, WebResult
from agentfly.runtime.http_client import Call


class _Found(BaseModel):
    link: str
    title: str = ""
    snippet: str = ""


class _Answer(BaseModel):
    organic: list[_Found]

    def results(self) -> list[WebResult]:
        return [WebResult(title=x.title, url=x.link, snippet=x.snippet) for x in self.organic]


def _call(query: str, k: int, key: str) -> Call:
    return Call(path="/search", body={"q": query, "num": k}, headers={"X-API-KEY": key})


SERPER = Provider(
    name="serper",
    url="https://google.serper.dev",
    key_env="SERPER_API_KEY",
    call=_call,
    answer=_Answer,
)
