"""Where in the shop a session stands. A location is a value: equal spots are the same page."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class AtSearch:
    """Before the search box, nothing looked for yet."""

    @property
    def key(self) -> str:
        """Equal keys mean equal states."""
        return "search"


@dataclass(frozen=True, slots=True)
class AtResults:
    """Before a page of what was found."""

    query: str
    number: int = 1

    @property
    def key(self) -> str:
        """Equal keys mean equal states."""
        return f"results {self.number} {self.query}"


@dataclass(frozen=True, slots=True)
class AtItem:
    """Before a product, with some of its options chosen."""

    results: AtResults
    asin: str
    chosen: tuple[tuple[str, str], ...] = ()
    """By the option's name, sorted, so that the order of clicks leaves no trace."""

    def choose(self, name: str, value: str) -> "AtItem":
        """Set one option.

        >>> AtItem(AtResults("mug"), "G1", (("size", "s"),)).choose("color", "red").chosen
        (('color', 'red'), ('size', 's'))
        """
        return replace(self, chosen=tuple(sorted({**dict(self.chosen), name: value}.items())))

    @property
    def key(self) -> str:
        """Equal keys mean equal states."""
        return f"item {self.asin} {self.chosen} {self.results.key}"


@dataclass(frozen=True, slots=True)
class AtDetail:
    """Before one of a product's further pages."""

    item: AtItem
    detail: str
    """`Description`, `Features` or `Reviews`."""

    @property
    def key(self) -> str:
        """Equal keys mean equal states."""
        return f"{self.detail} {self.item.key}"


@dataclass(frozen=True, slots=True)
class AtEnd:
    """After the purchase."""

    item: AtItem

    @property
    def key(self) -> str:
        """Equal keys mean equal states."""
        return f"bought {self.item.key}"


Location = AtSearch | AtResults | AtItem | AtDetail | AtEnd
