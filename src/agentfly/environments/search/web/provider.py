"""What a provider of web search is: how to ask it, and how to read what it answers."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from agentfly.environments.search.html_text import unescape_html
from agentfly.environments.search.retriever import MAX_QUERY
from agentfly.runtime.http_client import Call


class WebResult(BaseModel):
    """One page that was found."""

    title: str = ""
    url: str
    """Whole, or a path from where the provider is."""
    snippet: str = ""


class WebAnswer(Protocol):
    """A provider's own form of answer: a pydantic model that can list what it found."""

    def results(self) -> list[WebResult]:
        """Return the pages, the best first; ToolError if the answer is that the query is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service, as data."""

    name: str
    url: str | None
    """Where it is; None if everybody has their own."""
    key_env: str | None
    """Environment variable with the key; None if it needs none."""
    call: Callable[[str, int, str], Call]
    """Makes the request for a query, a number of results and the key."""
    answer: type[BaseModel]
    """Fits `WebAnswer`."""
    max_query: int = MAX_QUERY
    """Characters of a query that it takes."""
    max_words: int | None = None
    """Words of a query that it takes; None for any number."""


_MARK = re.compile(r"<[^<>]{0,200}>")


def strip_tags(snippet: str) -> str:
    """Take out the marks by which providers show what matched.

    >>> strip_tags("Cats &amp; <strong>dogs</strong>")
    'Cats & dogs'
    """
    return unescape_html(_MARK.sub("", snippet))
