"""The shop of the environment `webshop` as a site: the same goals and the same reward."""

from collections.abc import Mapping
from html import escape
from typing import Any

from agentfly.environments.browser.address import AddressRules
from agentfly.environments.browser.options import BrowserOptions
from agentfly.environments.browser.sites.site import Outcome, PageRequest, PageResponse, PageView
from agentfly.environments.webshop import WebShop, WebShopOptions
from agentfly.environments.webshop.navigation import MAX_QUERY, AtItem
from agentfly.environments.webshop.page import Kind, Piece, Row
from agentfly.types import Seed, Task

HOST = "shop.test"
_STYLE = """
body{font:15px sans-serif;margin:24px}form{display:inline}.row{padding:4px 0}
button{margin:2px}.chosen{background:#23395b;color:#fff}
"""


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
        form = request.form
        if "query" in form:
            self.shop.search(form["query"])
        elif "click" in form:
            self.shop.click(form["click"])
        return PageResponse.redirect(self.start)

    def _page(self) -> str:
        rows = "".join(self._row(row) for row in self.shop.page.rows)
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>WebShop</title>'
            f"<style>{_STYLE}</style>{rows}</html>"
        )

    def _row(self, row: Row) -> str:
        return f'<div class="row">{" ".join(map(self._piece, row))}</div>'

    def _piece(self, piece: Piece) -> str:
        text = escape(piece.text)
        if piece.kind is Kind.TEXT:
            return f"<span>{text}</span>"
        if piece.kind is Kind.BOX:
            return (
                f'<form method="post"><input name="query" maxlength="{MAX_QUERY}" '
                f'aria-label="Search"><button>{text}</button></form>'
            )
        pressed = ' class="chosen" aria-selected="true"' if self._chosen(piece) else ""
        return (
            f'<form method="post"><button name="click" value="{text}"{pressed}>{text}</button>'
            "</form>"
        )

    def _chosen(self, piece: Piece) -> bool:
        location = self.shop.location
        return isinstance(location, AtItem) and (piece.option, piece.text) in location.chosen


def shop_options(options: BrowserOptions) -> WebShopOptions:
    """Return the options of the shop behind the site."""
    return WebShopOptions(level=options.level)
