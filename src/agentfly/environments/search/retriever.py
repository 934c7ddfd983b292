"""The protocol of all retrievers, and the passages they return."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of text, the unit of retrieval.

    >>> Passage(id="Askel", title="Askel", text="Askel lies on the Umber.").headed
    'Askel: Askel lies on the Umber.'
    """

    id: str
    """Argument of `open_page`: the id in the corpus, or the address of a page."""
    title: str
    text: str

    @property
    def headed(self) -> str:
        """Title and text on one line."""
        return f"{self.title}: {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found, with its score."""

    passage: Passage
    score: float
    """Score, higher is better; comparable only among the hits of one search."""


MAX_QUERY = 1000
"""Maximum number of characters of a query; longer ones are truncated."""
MAX_HITS = 1000
"""Maximum number of hits of a search."""


class Retriever(Protocol):
    """Finds passages for a query.

    Any text is a valid query; one without a known word finds nothing. The only exception for a
    query is ToolError, from services that refuse long ones. Implementations must be thread-safe.
    """

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` hits, best first."""


def replace_surrogates(text: str) -> str:
    r"""Replace lone surrogates, which JSON can contain and UTF-8 can't encode.

    >>> replace_surrogates("cats\ud83d")
    'cats?'
    """
    return text.encode(errors="replace").decode()
