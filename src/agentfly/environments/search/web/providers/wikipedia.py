"""Wikipedia's own search: https://www.mediawiki.org/wiki/API:Search."""

from typing import Self

from pydantic import BaseModel, model_validator

from agentfly.environments.search.web.provider import Provider, WebResult, strip_tags
from agentfly.errors import EnvError, ToolError
from agentfly.runtime.http_client import Call

SITE = "https://en.wikipedia.org"
MAX_RESULTS = 50
"""Maximum number of results of a request."""
BAD_QUERY = (
    "cirrussearch-parse-error",
    "cirrussearch-query-too-long",
    "cirrussearch-regex-syntax-error",
)
"""Error codes of a wrong query; all others are failures of Wikipedia."""
USER_AGENT = "agentfly (https://pypi.org/project/agentfly)"
"""User agent, which Wikipedia requires of programs."""


class _Found(BaseModel):
    title: str
    pageid: int
    snippet: str = ""


class _Query(BaseModel):
    search: list[_Found]


class _Error(BaseModel):
    code: str
    info: str = ""


class _Answer(BaseModel):
    query: _Query | None = None
    error: _Error | None = None
    """The error, although the status is 200."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.query is None and self.error is None:
            raise ValueError("neither `query` nor `error` is there")
        return self

    def results(self) -> list[WebResult]:
        if self.error is not None:
            kind = ToolError if self.error.code in BAD_QUERY else EnvError
            raise kind(f"Wikipedia answered {self.error.code}: {self.error.info:.300}")
        return [] if self.query is None else [_result(found) for found in self.query.search]


def _result(found: _Found) -> WebResult:
    path = f"/w/index.php?curid={found.pageid}"
    return WebResult(title=found.title, url=path, snippet=strip_tags(found.snippet))


def _call(query: str, k: int, key: str) -> Call:
    del key
    asked = {"srsearch": query, "srlimit": str(min(k, MAX_RESULTS))}
    form = {"action": "query", "list": "search", "format": "json"}
    return Call(
        method="GET", path="/w/api.php", query={**form, **asked}, headers={"User-Agent": USER_AGENT}
    )


WIKIPEDIA = Provider(
    name="wikipedia", url=SITE, key_env=None, call=_call, answer=_Answer, max_query=300
)
