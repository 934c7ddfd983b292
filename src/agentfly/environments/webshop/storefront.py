"""The shop's pages in one form, made once and shared by all sessions."""

import threading
from functools import lru_cache

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
    Label,
    Page,
    detail_page,
    item_page,
    results_page,
)
from agentfly.environments.webshop.page_forms import (
    COMPACT,
    RICH,
    SEPARATOR,
    TEXT,
    Marks,
    as_compact,
    as_rich,
    as_text,
    clicked_lines,
    with_instruction,
)
from agentfly.environments.webshop.shop import Shop, open_shop

__all__ = ["SEPARATOR", "Storefront", "open_storefront"]

CACHED_PAGES = 4096
"""Number of cached pages of each kind, and of cached observations."""

_opening = threading.Lock()


class Storefront:
    """Pages of one size in one form, shared by all sessions with these options."""

    def __init__(self, shop: Shop, *, form: str, page_size: int) -> None:
        self.shop = shop
        self._page_size = page_size
        self._results = lru_cache(CACHED_PAGES)(self._make_results)
        self._item = lru_cache(CACHED_PAGES)(self._make_item)
        self._detail = lru_cache(CACHED_PAGES)(self._make_detail)
        self._form = form
        self._body = lru_cache(CACHED_PAGES)(self._make_body)

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

    def show(
        self,
        page: Page,
        location: Location,
        *,
        instruction: str | None = None,
        visited: frozenset[str] = frozenset(),
    ) -> str:
        """Return the page at a location as an observation, below the instruction if one is given.

        Only the rich form marks the products that were visited.
        """
        marks = self._marks(location, visited)
        body = self._body(page, marks)
        if instruction is not None:
            welcome = page is SEARCH_PAGE
            body = with_instruction(self._form, instruction, body, welcome=welcome)
        return clicked_lines(page, marks) + body if self._form == RICH else body

    def _marks(self, location: Location, visited: frozenset[str]) -> Marks:
        match location:
            case AtItem(results, _, chosen) if self._form == RICH:
                return Marks(chosen, results.query)
            case AtItem(_, _, chosen) if self._form == COMPACT:
                return Marks(chosen)
            case AtResults() if self._form == RICH:
                return Marks(visited=visited)
        return Marks()

    def _make_body(self, page: Page, marks: Marks) -> str:
        if self._form == TEXT:
            return as_text(page)
        return as_rich(page, marks) if self._form == RICH else as_compact(page, marks.chosen)

    def _make_results(self, query: str, number: int) -> Page:
        found, published = self.shop.search(query), self._form != COMPACT
        return results_page(found, number, self._page_size, published=published)

    def _make_item(self, asin: str) -> Page:
        return item_page(self.shop.product(asin))

    def _make_detail(self, asin: str, detail: Label) -> Page:
        return detail_page(self.shop.product(asin), detail, published=self._form != COMPACT)


def open_storefront(options: WebShopOptions) -> Storefront:
    """Return the storefront of these options, which is made once."""
    shop = open_shop(options)
    with _opening:
        return _storefront(shop, form=options.observation, page_size=options.page_size)


@lru_cache(maxsize=16)
def _storefront(shop: Shop, *, form: str, page_size: int) -> Storefront:
    return Storefront(shop, form=form, page_size=page_size)
