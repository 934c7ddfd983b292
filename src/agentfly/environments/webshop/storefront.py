"""The shop's pages as observations: the published text and rich forms, and a compact one."""

import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from agentfly.environments.webshop.navigation import (
    AtDetail,
    AtEnd,
    AtItem,
    AtResults,
    Location,
)
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.page import (
    END_PAGE,
    SEARCH_PAGE,
    Kind,
    Label,
    Page,
    Piece,
    detail_page,
    item_page,
    results_page,
)
from agentfly.environments.webshop.shop import Shop, open_shop

CACHED_PAGES = 4096
"""Number of cached pages of each kind, and of cached observations."""
SEPARATOR = " [SEP] "
Chosen = tuple[tuple[str, str], ...]
"""Chosen options as pairs of name and value."""


_opening = threading.Lock()


def as_text(page: Page, chosen: Chosen = ()) -> str:
    """Join all visible texts. The chosen options are not shown.

    >>> as_text(Page(((Piece(Kind.BUTTON, "< Prev"),), (Piece(Kind.TEXT, "A mug"),))))
    '< Prev [SEP] A mug'
    """
    del chosen
    return SEPARATOR.join(piece.text for piece in page.pieces)


def as_rich(page: Page, chosen: Chosen = ()) -> str:
    """Write the chosen options, then each text on a line with buttons marked.

    >>> print(as_rich(Page(((Piece(Kind.OPTION, "red", "color"),),)), (("color", "red"),)))
    You have clicked red.
    [clicked button] red [clicked button_]
    """
    clicked = [f"You have clicked {value}." for _, value in chosen]
    return "\n".join([*clicked, *(_rich_line(piece, chosen) for piece in page.pieces)])


def as_compact(page: Page, chosen: Chosen = ()) -> str:
    """Write each row on a line, with [clickable] and (chosen) texts in brackets.

    >>> row = (Piece(Kind.TEXT, "size"), Piece(Kind.OPTION, "s", "size"),
    ...     Piece(Kind.OPTION, "m", "size"))
    >>> as_compact(Page((row,)), (("size", "m"),))
    'size [s] (m)'
    """
    return "\n".join(" ".join(_compact(piece, chosen) for piece in row) for row in page.rows)


FORMS: Mapping[str, Callable[[Page, Chosen], str]] = MappingProxyType(
    {"compact": as_compact, "text": as_text, "rich": as_rich}
)
_INSTRUCTION = {
    "compact": "Instruction: {}\n",
    "text": f"Instruction:{SEPARATOR}{{}}{SEPARATOR}",
    "rich": "Instruction:\n{}\n",
}
_WELCOME = {"compact": "", "text": f"WebShop{SEPARATOR}", "rich": "WebShop\n"}


def with_instruction(form: str, instruction: str, body: str, *, welcome: bool) -> str:
    """Put the instruction above a page.

    >>> with_instruction("text", "Find me a mug", "Search", welcome=True)
    'WebShop [SEP] Instruction: [SEP] Find me a mug [SEP] Search'
    """
    heading = _WELCOME[form] if welcome else ""
    return heading + _INSTRUCTION[form].format(instruction.strip()) + body


def _rich_line(piece: Piece, chosen: Chosen) -> str:
    if piece.kind is Kind.TEXT:
        return piece.text
    if (piece.option, piece.text) in chosen:
        return f"[clicked button] {piece.text} [clicked button_]"
    return f"[button] {piece.text} [button_]"


def _compact(piece: Piece, chosen: Chosen) -> str:
    if piece.kind is Kind.TEXT or piece.kind is Kind.BOX:
        return piece.text
    return f"({piece.text})" if (piece.option, piece.text) in chosen else f"[{piece.text}]"


class Storefront:
    """Pages of one size in one form, shared by all sessions with these options."""

    def __init__(self, shop: Shop, *, form: str, page_size: int) -> None:
        self.shop = shop
        self._page_size = page_size
        self._results = lru_cache(CACHED_PAGES)(self._make_results)
        self._item = lru_cache(CACHED_PAGES)(self._make_item)
        self._detail = lru_cache(CACHED_PAGES)(self._make_detail)
        self._shown = lru_cache(CACHED_PAGES)(FORMS[form])

    def page(self, location: Location) -> Page:
        """Return the page at a location, without the chosen options."""
        match location:
            case AtItem(_, asin):
                return self._item(asin)
            case AtResults(query, number):
                return self._results(query, number)
            case AtDetail(AtItem(_, asin), detail):
                return self._detail(asin, Label(detail))
            case AtEnd():
                return END_PAGE
            case _:
                return SEARCH_PAGE

    def show(self, page: Page, location: Location) -> str:
        """Return the page at a location as an observation, without the instruction."""
        chosen: Chosen = location.chosen if isinstance(location, AtItem) else ()
        return self._shown(page, chosen)

    def _make_results(self, query: str, number: int) -> Page:
        return results_page(self.shop.search(query), number, self._page_size)

    def _make_item(self, asin: str) -> Page:
        return item_page(self.shop.product(asin))

    def _make_detail(self, asin: str, detail: Label) -> Page:
        return detail_page(self.shop.product(asin), detail)


def open_storefront(options: WebShopOptions) -> Storefront:
    """Return the storefront of these options, which is made once."""
    shop = open_shop(options)
    with _opening:
        return _storefront(shop, form=options.observation, page_size=options.page_size)


@lru_cache(maxsize=16)
def _storefront(shop: Shop, *, form: str, page_size: int) -> Storefront:
    return Storefront(shop, form=form, page_size=page_size)
