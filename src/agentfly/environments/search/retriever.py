"""The one way to search, whatever stands behind it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of text that is found as a whole.

    >>> Passage(id="Askel", title="Askel", text="Askel lies on the Umber.").headed
    'Askel: Askel lies on the Umber.'
    """

    id: str
    """What `open_page` takes: the corpus's own id, or a page's address."""
    title: str
    text: str

    @property
    def headed(self) -> str:
        """Title and text on one line."""
        return f"{self.title}: {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found, and how well it fits."""

    passage: Passage
    score: float
    """Higher is better; comparable only among the hits of one search."""


MAX_QUERY = 1000
"""Characters of a query that are looked at; no question is longer."""
MAX_HITS = 1000
"""Nobody reads more."""


class Retriever(Protocol):
    """Finds passages. Any text is a query, and one without a known word finds nothing.

    None raises but where a service takes no long ones: that is a ToolError. A retriever is used by
    many threads at once.
    """

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` hits, the best first."""


def replace_surrogates(text: str) -> str:
    r"""Replace half characters, which JSON can spell and which have no bytes.

    >>> replace_surrogates("cats\ud83d")
    'cats?'
    """
    return text.encode(errors="replace").decode()
