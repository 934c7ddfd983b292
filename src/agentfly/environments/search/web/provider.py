"""What a provider of web search is: how to ask it, and how to read what it answers."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from agentfly.engines.remote.server import Call


class WebResult(BaseModel):
    """One page that was found."""

    title: str = ""
    url: str
    snippet: str = ""


class WebAnswer(Protocol):
    """A provider's own form of answer: a pydantic model that can list what it found."""

    def results(self) -> list[WebResult]:
        """Return the pages, the best first."""


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


_MARK = re.compile(r"<[^<>]{0,200}>")


def without_marks(snippet: str) -> str:
    """Take out the marks by which providers show what matched.

    >>> without_marks("Cats &amp; <strong>dogs</strong>")
    'Cats & dogs'
    """
    return html.unescape(_MARK.sub("", snippet))
