"""Moving through the shop: actions as a model writes them, locations, and where clicks lead.

A location is a value: equal locations show the same page.
"""

import re
from dataclasses import dataclass, replace

from agentfly.environments.webshop.page import Kind, Label, Piece

MAX_QUERY = 2000
"""Maximum characters of a query."""

_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Search:
    """A search for words."""

    query: str


@dataclass(frozen=True, slots=True)
class Click:
    """A click on the button, link or option with this text."""

    label: str


def parse_action(text: str) -> Search | Click | None:
    """Parse `search[words]` or `click[label]`; return None for any other text.

    >>> parse_action("search[Red Mug]"), parse_action("Click[Buy Now]"), parse_action("buy a mug")
    (Search(query='red mug'), Click(label='buy now'), None)
    """
    found = _ACTION.fullmatch(text)
    if found is None:
        return None
    verb, argument = found.group(1).lower(), found.group(2).strip().lower()
    return Search(argument) if verb == "search" else Click(argument)


def write_action(action: Search | Click) -> str:
    """Write an action as text.

    >>> write_action(Click("buy now"))
    'click[buy now]'
    """
    if isinstance(action, Search):
        return f"search[{action.query}]"
    return f"click[{action.label}]"


@dataclass(frozen=True, slots=True)
class AtSearch:
    """The search page, before any search."""

    @property
    def key(self) -> str:
        """Text that is equal for equal states."""
        return "search"


@dataclass(frozen=True, slots=True)
class AtResults:
    """A page of search results."""

    query: str
    number: int = 1

    @property
    def key(self) -> str:
        """Text that is equal for equal states."""
        return f"results {self.number} {self.query}"


@dataclass(frozen=True, slots=True)
class AtItem:
    """A product's page, with some of its options chosen."""

    results: AtResults
    asin: str
    chosen: tuple[tuple[str, str], ...] = ()
    """Pairs of option and value, sorted, so that the order of clicks doesn't matter."""

    def choose(self, name: str, value: str) -> "AtItem":
        """Set one option.

        >>> AtItem(AtResults("mug"), "G1", (("size", "s"),)).choose("color", "red").chosen
        (('color', 'red'), ('size', 's'))
        """
        return replace(self, chosen=tuple(sorted({**dict(self.chosen), name: value}.items())))

    @property
    def key(self) -> str:
        """Text that is equal for equal states."""
        return f"item {self.asin} {self.chosen} {self.results.key}"


@dataclass(frozen=True, slots=True)
class AtDetail:
    """One of a product's further pages."""

    item: AtItem
    detail: str
    """`Description`, `Features` or `Reviews`."""

    @property
    def key(self) -> str:
        """Text that is equal for equal states."""
        return f"{self.detail} {self.item.key}"


@dataclass(frozen=True, slots=True)
class AtEnd:
    """The end page, after the purchase."""

    item: AtItem

    @property
    def key(self) -> str:
        """Text that is equal for equal states."""
        return f"bought {self.item.key}"


Location = AtSearch | AtResults | AtItem | AtDetail | AtEnd


def follow_click(location: Location, clicked: Piece) -> Location:
    """Return the location that a click leads to. `clicked` must be on the page of `location`."""
    if clicked.kind is Kind.BUTTON and clicked.text == Label.BACK_TO_SEARCH:
        return AtSearch()
    match location:
        case AtItem():
            return _from_item(location, clicked)
        case AtResults():
            return _from_results(location, clicked)
        case AtDetail(item):
            return item
    raise AssertionError(f"{clicked} is not on the page at {location}")


def _from_results(results: AtResults, clicked: Piece) -> Location:
    if clicked.kind is Kind.LINK:
        return AtItem(results, clicked.text)
    step = 1 if clicked.text == Label.NEXT else -1
    return AtResults(results.query, results.number + step)


def _from_item(item: AtItem, clicked: Piece) -> Location:
    if clicked.kind is Kind.OPTION:
        return item.choose(clicked.option, clicked.text)
    if clicked.text == Label.BUY:
        return AtEnd(item)
    return item.results if clicked.text == Label.PREVIOUS else AtDetail(item, clicked.text)
