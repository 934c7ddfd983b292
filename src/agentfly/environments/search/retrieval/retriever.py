"""The one way to search, whatever stands behind it."""

from typing import Protocol

from agentfly.environments.search.passage import Hit

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
