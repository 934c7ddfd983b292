"""Actions as a model writes them."""

import re
from dataclasses import dataclass

MAX_QUERY = 2000
"""Longest query in characters."""

_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Search:
    """Look for words."""

    query: str


@dataclass(frozen=True, slots=True)
class Click:
    """Click what is written so on the page."""

    label: str


def parse_action(text: str) -> Search | Click | None:
    """Read `search[words]` or `click[label]`; None if it is neither.

    >>> parse_action("search[Red Mug]"), parse_action("Click[Buy Now]"), parse_action("buy a mug")
    (Search(query='red mug'), Click(label='buy now'), None)
    """
    found = _ACTION.fullmatch(text)
    if found is None:
        return None
    verb, argument = found.group(1).lower(), found.group(2).strip().lower()
    return Search(argument) if verb == "search" else Click(argument)
