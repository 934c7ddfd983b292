"""The description of a web search provider: its requests and its answers."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from agentfly.environments.search.html_text import unescape_html
from agentfly.environments.search.retriever import MAX_QUERY
from agentfly.runtime.http_client import Call


class WebResult(BaseModel):
    """One result of a web search."""

    title: str = ""
    url: str
    """Absolute URL, or a path relative to the provider's."""
    snippet: str = ""


class WebAnswer(Protocol):
    """A pydantic model of a provider's answer, which lists the results."""

    def results(self) -> list[WebResult]:
        """Return the results, best first; ToolError if the provider rejects the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A web search provider, as data."""

    name: str
    url: str | None
    """Public address; None if every user runs their own server."""
    key_env: str | None
    """Environment variable with the key; None if it needs none."""
    call: Callable[[str, int, str], Call]
    """Returns the request for a query, a number of results and the key."""
    answer: type[BaseModel]
    """Model of the answer; implements `WebAnswer`."""
    max_query: int = MAX_QUERY
    """Maximum number of characters of a query."""
    max_words: int | None = None
    """Maximum number of words of a query; None for no limit."""


_MARK = re.compile(r"<[^<>]{0,200}>")


def strip_tags(snippet: str) -> str:
    """Remove the tags by which providers highlight matches.

    >>> strip_tags("Cats &amp; <strong>dogs</strong>")
    'Cats & dogs'
    """
    return unescape_html(_MARK.sub("", snippet))
