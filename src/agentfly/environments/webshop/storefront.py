"""The storefront: the shop's pages as they are shown, and where each click leads."""

import threading
from functools import lru_cache

from agentfly.environments.webshop.navigation import (
    AtDetail,
    AtEnd,
    AtItem,
    AtResults,
    AtSearch,
    Location,
)
from agentfly.environments.webshop.observation import FORMS, Chosen
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


def follow_click(location: Location, clicked: Piece) -> Location:
    """Return where a click leads. What was clicked must be on the page of the location."""
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


def open_storefront(options: WebShopOptions) -> Storefront:
    """Return the one storefront of these options."""
    shop = open_shop(options)
    with _opening:
        return _storefront(shop, form=options.observation, page_size=options.page_size)


@lru_cache(maxsize=16)
def _storefront(shop: Shop, *, form: str, page_size: int) -> Storefront:
    return Storefront(shop, form=form, page_size=page_size)
