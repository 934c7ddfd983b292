"""Wikipedia's own search: https://www.mediawiki.org/wiki/API:Search."""

from pydantic import BaseModel

from agentfly.engines.remote.server import Call
from agentfly.environments.search.web.provider import Provider, WebResult, without_marks

SITE = "https://en.wikipedia.org"
MOST = 50
"""It gives no more at once."""
WHO = "agentfly (https://pypi.org/project/agentfly)"
"""Wikipedia asks programs to say who they are."""


class _Found(BaseModel):
    title: str
    pageid: int
    snippet: str = ""


class _Query(BaseModel):
    search: list[_Found]


class _Answer(BaseModel):
    query: _Query

    def results(self) -> list[WebResult]:
        return [
            WebResult(
                title=x.title, url=f"{SITE}/?curid={x.pageid}", snippet=without_marks(x.snippet)
            )
            for x in self.query.search
        ]


def _call(query: str, k: int, key: str) -> Call:
    del key
    asked = {"srsearch": query, "srlimit": str(min(k, MOST))}
    form = {"action": "query", "list": "search", "format": "json"}
    return Call(
        method="GET", path="/w/api.php", query={**form, **asked}, headers={"User-Agent": WHO}
    )


WIKIPEDIA = Provider(name="wikipedia", url=SITE, key_env=None, call=_call, answer=_Answer)
