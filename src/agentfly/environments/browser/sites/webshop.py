"""The shop of the environment `webshop` as a site: the same goals and the same reward."""

from collections.abc import Mapping
from typing import Any

from agentfly.environments.browser.address import AddressRules
from agentfly.environments.browser.options import BrowserOptions
from agentfly.environments.browser.site import Outcome, PageRequest, PageResponse, PageView
from agentfly.environments.webshop import WebShop, WebShopOptions
from agentfly.environments.webshop.shop_html import STYLE, shop_section
from agentfly.types import Seed, Task

HOST = "shop.test"


class WebShopSite:
    """One session in the shop. A form is an action of the text version, and leads to its page."""

    rules = AddressRules(served=frozenset({HOST}))
    hidden: tuple[str, ...] = ()
    start = f"http://{HOST}/"

    def __init__(self, row: Mapping[str, Any], options: WebShopOptions) -> None:
        self.shop = WebShop(**options.model_dump())
        self.shop.reset(Task.from_row(dict(row)), Seed(0))

    async def begin(self, page: PageView) -> str:
        """Return the instruction."""
        del page
        return self.shop.goal.instruction

    async def check(self, page: PageView) -> Outcome:
        """Return the reward of the purchase; 0 before it."""
        del page
        verdict = self.shop.verdict
        if verdict is None:
            return Outcome()
        return Outcome(reward=verdict.reward, done=True, parts=verdict.parts)

    def respond(self, request: PageRequest) -> PageResponse:
        """Return the page where the session is; a form moves it first."""
        if request.path != "/":
            return PageResponse.not_found()
        if request.method != "POST":
            return PageResponse.html(self._page())
        match request.form:
            case {"query": query}:
                self.shop.search(query)
            case {"action": action}:
                self.shop.click(action.removeprefix("click[").removesuffix("]"))
        return PageResponse.redirect(self.start)

    def _page(self) -> str:
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>WebShop</title>'
            f"<style>{STYLE}</style><section>{shop_section(self.shop, '/')}</section></html>"
        )


def shop_options(options: BrowserOptions) -> WebShopOptions:
    """Return the options of the shop behind the site."""
    names = {"data", "full", "goals", "products", "option_match"}
    # The level has another default here, and none beside the official files.
    names |= {"level"} if options.data is None else set()
    return WebShopOptions(**options.model_dump(include=names))
