"""The shop itself as HTML, for people and for agents in a browser.

Every text of a product is escaped, as none is trusted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from agentfly.environments.webshop.environment import WebShop
from agentfly.environments.webshop.navigation import MAX_QUERY, AtItem, AtResults
from agentfly.environments.webshop.page import Kind, Label, Piece, Row
from agentfly.environments.webshop.placeholder_picture import picture

STYLE = """
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: #222; background: #f6f5f2 }
header { padding: 12px 24px; background: #23395b; color: #fff }
header form { float: right } header b { font-size: 20px; letter-spacing: .5px }
main { display: grid; grid-template-columns: 3fr 2fr; gap: 24px; padding: 24px }
section { background: #fff; border: 1px solid #ddd; border-radius: 8px; padding: 16px 24px }
form { display: inline } .row { padding: 6px 0 }
button { margin: 2px 4px 2px 0; padding: 4px 10px; border: 1px solid #9ab; border-radius: 6px;
         background: #eef3f8; font: inherit; cursor: pointer }
button.chosen { background: #23395b; color: #fff }
button.buy { padding: 10px 28px; background: #ffcf56; border-color: #d9a400; font-weight: 600 }
button.title, button.asin { margin: 0; padding: 0; border: 0; background: none; text-align: left;
         color: #1a5fb4 } button.title:hover { text-decoration: underline }
button.title { font-weight: 600 } button.asin { color: #888; font-size: 12px }
input { padding: 8px 12px; width: 60%; font: inherit }
.goods { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 16px }
.card { border: 1px solid #e4e2dc; border-radius: 10px; padding: 12px }
.card .picture { display: block; width: 100% } .product { display: flex; gap: 24px }
.product .picture { flex: 0 0 220px; height: 220px } h1 { margin: 0 0 8px; font-size: 22px }
.price { display: block; color: #b12704; font-size: 20px; font-weight: 700 }
.name { display: inline-block; min-width: 70px; color: #555 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f5f2; padding: 12px }
details { margin: 4px 0 } .reward { font-size: 24px }
"""

CHOSEN = "chosen"
"""Look of the chosen value of an option."""


def shop_section(session: WebShop, address: str) -> str:
    """Return the page where a session is. Its forms post `query` or `action` to an address."""
    return _Section(session, address).html


def form_button(
    address: str, label: str, *, name: str = "action", value: str = "", look: str = ""
) -> str:
    """Return a button that posts one value to an address."""
    state = ' aria-selected="true"' if look == CHOSEN else ""
    return (
        f'<form method="post" action="{address}"><button class="{look}" name="{name}" '
        f'value="{escape(value)}"{state}>{escape(label)}</button></form>'
    )


@dataclass(frozen=True, slots=True)
class _Section:
    session: WebShop
    address: str

    @property
    def html(self) -> str:
        rows = self.session.page.rows
        match self.session.location:
            case AtResults():
                above, goods = _parted(rows)
                cards = "".join(self._card(*row) for row in goods)
                return self._rows(above) + f'<div class="goods">{cards}</div>'
            case AtItem(_, asin):
                return self._product(asin, rows)
        return self._rows(rows)

    def _card(self, link: Piece, title: Piece, price: Piece) -> str:
        """Return a product among the results: picture, title to click, price."""
        click = f"click[{link.text}]"
        return (
            f'<div class="card">{picture(link.text, title.text)}'
            f"{form_button(self.address, link.text, value=click, look='asin')}<br>"
            f"{form_button(self.address, title.text, value=click, look='title')}"
            f'<span class="price">{escape(price.text)}</span></div>'
        )

    def _product(self, asin: str, rows: Sequence[Row]) -> str:
        """Return a product's page: the picture beside title, price, options and the button."""
        above, *options, (title,), (price, rating), details, buy = rows
        return self._row(above) + (
            f'<div class="product">{picture(asin, title.text)}<div><h1>{escape(title.text)}</h1>'
            f'<span class="price">{escape(price.text)}</span>{self._piece(rating)}'
            f"{self._rows((*options, details, buy))}</div></div>"
        )

    def _rows(self, rows: Iterable[Row]) -> str:
        return "".join(map(self._row, rows))

    def _row(self, row: Row) -> str:
        return f'<div class="row">{" ".join(map(self._piece, row))}</div>'

    def _piece(self, piece: Piece) -> str:
        text = escape(piece.text)
        if piece.kind is Kind.TEXT:
            return f'<span class="name">{text}</span>'
        if piece.kind is Kind.BOX:
            return (
                f'<form method="post" action="{self.address}"><input name="query" autofocus '
                f'aria-label="{text}" maxlength="{MAX_QUERY}"><button>{text}</button></form>'
            )
        value = f"click[{piece.text}]"
        return form_button(self.address, piece.text, value=value, look=self._look(piece))

    def _look(self, piece: Piece) -> str:
        location = self.session.location
        if isinstance(location, AtItem) and (piece.option, piece.text) in location.chosen:
            return CHOSEN
        return "buy" if piece.kind is Kind.BUTTON and piece.text == Label.BUY else ""


def _parted(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows above the goods, and those with a product each."""
    goods = [row for row in rows if row[:1] and row[0].kind is Kind.LINK]
    return [row for row in rows if row and row not in goods], goods
