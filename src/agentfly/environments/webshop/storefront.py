"""The storefront: the shop's pages as they are shown, and where each click leads."""

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

SEPARATOR = " [SEP] "
Chosen = tuple[tuple[str, str], ...]
"""Options by name and value."""


def as_text(page: Page, chosen: Chosen = ()) -> str:
    """Join all visible texts. What is chosen can't be seen.

    >>> as_text(Page(((Piece(Kind.BUTTON, "< Prev"),), (Piece(Kind.TEXT, "A mug"),))))
    '< Prev [SEP] A mug'
    """
    del chosen
    return SEPARATOR.join(piece.text for piece in page.pieces)


def as_rich(page: Page, chosen: Chosen = ()) -> str:
    """Put each text on a line, buttons marked, and first of all what is chosen.

    >>> print(as_rich(Page(((Piece(Kind.OPTION, "red", "color"),),)), (("color", "red"),)))
    You have clicked red.
    [clicked button] red [clicked button_]
    """
    told = [f"You have clicked {value}." for _, value in chosen]
    return "\n".join([*told, *(_rich_line(piece, chosen) for piece in page.pieces)])


def as_compact(page: Page, chosen: Chosen = ()) -> str:
    """Write each row on a line, what can be clicked in brackets, what is chosen in round ones.

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
    """Put the instruction over a page.

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


CACHED_PAGES = 4096
"""How many pages of each kind, and how many observations, are kept ready."""

_opening = threading.Lock()


class Storefront:
    """Pages of one size in one form, shared by all sessions that see the shop so."""

    def __init__(self, shop: Shop, *, form: str, page_size: int) -> None:
        self.shop = shop
        self._form = FORMS[form]
        self._page_size = page_size
        keep = lru_cache(CACHED_PAGES)
        self._results = keep(self._make_results)
        self._item = keep(self._make_item)
        self._detail = keep(self._make_detail)
        self._shown = lru_cache(CACHED_PAGES)(self._form)

    def page(self, location: Location) -> Page:
        """Return the page at a location; what is chosen there is no part of it."""
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
        """Return the page at a location as the agent reads it, without the instruction."""
        chosen: Chosen = location.chosen if isinstance(location, AtItem) else ()
        return self._shown(page, chosen)

    def _make_results(self, query: str, number: int) -> Page:
        return results_page(self.shop.search(query), number, self._page_size)

    def _make_item(self, asin: str) -> Page:
        return item_page(self.shop.product(asin))

    def _make_detail(self, asin: str, detail: Label) -> Page:
        return detail_page(self.shop.product(asin), detail)


def open_storefront(options: WebShopOptions) -> Storefront:
    """Return the one storefront of these options."""
    shop = open_shop(options)
    with _opening:
        return _storefront(shop, form=options.observation, page_size=options.page_size)


@lru_cache(maxsize=16)
def _storefront(shop: Shop, *, form: str, page_size: int) -> Storefront:
    return Storefront(shop, form=form, page_size=page_size)
