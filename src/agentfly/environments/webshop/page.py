"""A page of the shop: rows of texts and clickable pieces, independent of how they are shown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import cached_property, lru_cache

from agentfly.environments.webshop.catalog import Product


class Label(StrEnum):
    """Texts of the shop's own buttons."""

    BACK_TO_SEARCH = "Back to Search"
    PREVIOUS = "< Prev"
    NEXT = "Next >"
    DESCRIPTION = "Description"
    FEATURES = "Features"
    REVIEWS = "Reviews"
    BUY = "Buy Now"


CACHED_ROWS = 1 << 15
"""Number of cached result rows: searches often find the same products."""
DETAILS = (Label.DESCRIPTION, Label.FEATURES, Label.REVIEWS)


class Kind(Enum):
    """Kind of a piece of a page."""

    TEXT = auto()
    BOX = auto()
    """The search box with its button, which is used by searching, not by clicking."""
    BUTTON = auto()
    LINK = auto()
    """A product's asin among the results."""
    OPTION = auto()
    """A value that can be chosen."""

    @property
    def clickable(self) -> bool:
        """Whether it can be clicked."""
        return self is not Kind.TEXT and self is not Kind.BOX


@dataclass(frozen=True, slots=True)
class Piece:
    """One visible text of a page."""

    kind: Kind
    text: str
    option: str = ""
    """Name of the option that a value belongs to."""


Row = tuple[Piece, ...]


@dataclass(frozen=True, eq=False)
class Page:
    """The rows of a page, without the instruction, which differs by session."""

    rows: tuple[Row, ...]

    @property
    def pieces(self) -> Iterator[Piece]:
        """All pieces in reading order."""
        return (piece for row in self.rows for piece in row)

    @cached_property
    def clickables(self) -> Mapping[str, Piece]:
        """Clickable pieces by their text in lower case.

        Buttons hide options of the same text; of several equal values the last can be clicked.
        """
        found = [piece for piece in self.pieces if piece.kind.clickable]
        found.sort(key=lambda piece: piece.kind is Kind.BUTTON)
        return {piece.text.lower(): piece for piece in found}

    @cached_property
    def has_search_box(self) -> bool:
        """Whether the page has a search box."""
        return any(piece.kind is Kind.BOX for piece in self.pieces)

    @property
    def actions(self) -> list[str]:
        """All possible actions; `search[words]` stands for any words."""
        clicks = [f"click[{label}]" for label in self.clickables]
        return ["search[words]", *clicks] if self.has_search_box else clicks


NO_RATING = Piece(Kind.TEXT, "Rating: N.A.")
"""Rating of every product: the published files have no ratings or reviews."""
SEARCH_PAGE = Page(((Piece(Kind.BOX, "Search"),),))
END_PAGE = Page(((Piece(Kind.TEXT, "Thank you for shopping with us!"),),))


def results_page(
    products: Sequence[Product], number: int, size: int, *, published: bool = False
) -> Page:
    """Return one page of search results.

    In the published shop every page leads to a next one, even the last.
    """
    start = (number - 1) * size
    heading = Piece(Kind.TEXT, f"Page {number} (Total results: {len(products)})")
    previous = [Label.PREVIOUS] if number > 1 else []
    following = [Label.NEXT] if published or start + size < len(products) else []
    shown = [_result(product) for product in products[start : start + size]]
    if published:
        moves = _buttons(*previous, *following)
        return Page((_buttons(Label.BACK_TO_SEARCH), (heading,), moves, *shown))
    return Page((_buttons(Label.BACK_TO_SEARCH, *previous, *following), (heading,), *shown))


def item_page(product: Product) -> Page:
    """Return a product's page: options, links to further pages, and the button that buys it."""
    price = Piece(Kind.TEXT, f"Price: {product.price_tag}")
    return Page(
        (
            _buttons(Label.BACK_TO_SEARCH, Label.PREVIOUS),
            *(_option(name, values) for name, values in product.options),
            (Piece(Kind.TEXT, product.title),),
            (price, NO_RATING),
            _buttons(*DETAILS),
            _buttons(Label.BUY),
        )
    )


def detail_page(product: Product, detail: Label, *, published: bool = False) -> Page:
    """Return one of a product's further pages; only the published shop shows nothing for none."""
    buttons = _buttons(Label.BACK_TO_SEARCH, Label.PREVIOUS)
    texts = {
        Label.DESCRIPTION: (product.description,),
        # The blank is in the published page.
        Label.FEATURES: tuple(f" {feature}" for feature in product.features),
        Label.REVIEWS: (),
    }[detail]
    if published:
        return Page((buttons, *((Piece(Kind.TEXT, text),) for text in texts)))
    shown = tuple((Piece(Kind.TEXT, text),) for text in texts if text.strip())
    return Page((buttons, *(shown or ((Piece(Kind.TEXT, f"No {detail}"),),))))


def _buttons(*labels: str) -> Row:
    return tuple(Piece(Kind.BUTTON, label) for label in labels)


@lru_cache(CACHED_ROWS)
def _result(product: Product) -> Row:
    price = Piece(Kind.TEXT, product.price_tag)
    return (Piece(Kind.LINK, product.asin), Piece(Kind.TEXT, product.title), price)


def _option(name: str, values: Sequence[str]) -> Row:
    return (Piece(Kind.TEXT, name), *(Piece(Kind.OPTION, value, name) for value in values))
