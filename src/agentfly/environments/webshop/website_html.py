"""The HTML of the website. Every text of a product is escaped, as none is trusted."""

from collections.abc import Iterable, Sequence
from html import escape

from agentfly.environments.webshop.navigation import MAX_QUERY, AtItem, AtResults
from agentfly.environments.webshop.page import Kind, Label, Piece, Row
from agentfly.environments.webshop.placeholder_picture import picture
from agentfly.environments.webshop.visit import HistoryEntry, Visit

_STYLE = """
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


def visit_page(visit: Visit) -> str:
    """Return the page of a visit: the shop, and next to it the session as an agent sees it."""
    goal = escape(visit.session.goal.instruction)
    with visit.lock:
        shop, agent = _shop(visit), _agent(visit)
    return _document(
        f"<header>{_form('/', 'Another goal')}<b>WebShop</b><br>{goal}</header>"
        f"<main><section>{shop}</section><section>{agent}</section></main>"
    )


def message_page(message: str) -> str:
    """Return a page with only a message."""
    return _document(
        f"<header><b>WebShop</b></header><main><section><p>{escape(message)}</p>"
        f"{_form('/', 'Begin a new session')}</section></main>"
    )


def _document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>WebShop</title>'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _shop(visit: Visit) -> str:
    page = visit.session.page
    match visit.session.location:
        case AtResults():
            rows, goods = _parted(page.rows)
            shown = _rows(rows, visit) + f'<div class="goods">{_cards(goods, visit)}</div>'
        case AtItem(_, asin):
            shown = _product(asin, page.rows, visit)
        case _:
            shown = _rows(page.rows, visit)
    return shown + _verdict(visit)


def _rows(rows: Iterable[Row], visit: Visit) -> str:
    return "".join(_row(row, visit) for row in rows)


def _parted(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows above the goods, and those with a product each."""
    goods = [row for row in rows if row[:1] and row[0].kind is Kind.LINK]
    return [row for row in rows if row and row not in goods], goods


def _cards(goods: Iterable[Row], visit: Visit) -> str:
    """Return a card for each product: picture, title to click, price."""
    return "".join(
        f'<div class="card">{picture(link.text, title.text)}'
        f"{_form(_address(visit), title.text, value=f'click[{link.text}]', look='title')}"
        f'<span class="price">{escape(price.text)}</span>'
        f"{_form(_address(visit), link.text, value=f'click[{link.text}]', look='asin')}</div>"
        for link, title, price in goods
    )


def _product(asin: str, rows: Sequence[Row], visit: Visit) -> str:
    """Return a product's page: the picture beside title, price, options and the button to buy."""
    above, *options, (title,), (price, rating), details, buy = rows
    return _row(above, visit) + (
        f'<div class="product">{picture(asin, title.text)}<div><h1>{escape(title.text)}</h1>'
        f'<span class="price">{escape(price.text)}</span>{_piece(rating, visit)}'
        f"{_rows((*options, details, buy), visit)}</div></div>"
    )


def _verdict(visit: Visit) -> str:
    verdict = visit.session.verdict
    if verdict is None:
        return ""
    parts = "".join(f"<li>{escape(name)}: {value:g}</li>" for name, value in verdict.parts.items())
    written_for = escape(str(visit.task.fields.get("name", visit.session.goal.asin)))
    return (
        f'<p class="reward">Reward {verdict.reward:.3f}</p><ul>{parts}</ul>'
        f"<p>The goal was written for: {written_for}</p>"
    )


def _row(row: Row, visit: Visit) -> str:
    return f'<div class="row">{" ".join(_piece(piece, visit) for piece in row)}</div>'


def _piece(piece: Piece, visit: Visit) -> str:
    text, address = escape(piece.text), _address(visit)
    if piece.kind is Kind.TEXT:
        return f'<span class="name">{text}</span>'
    if piece.kind is Kind.BOX:
        return (
            f'<form method="post" action="{address}">'
            f'<input name="query" autofocus maxlength="{MAX_QUERY}"><button>{text}</button></form>'
        )
    return _form(address, piece.text, value=f"click[{piece.text}]", look=_look(piece, visit))


def _address(visit: Visit) -> str:
    return f"/visits/{visit.id}"


def _look(piece: Piece, visit: Visit) -> str:
    location = visit.session.location
    if isinstance(location, AtItem) and (piece.option, piece.text) in location.chosen:
        return "chosen"
    return "buy" if piece.kind is Kind.BUTTON and piece.text == Label.BUY else ""


def _form(
    address: str, label: str, *, name: str = "action", value: str = "", look: str = ""
) -> str:
    return (
        f'<form method="post" action="{address}"><button class="{look}" name="{name}" '
        f'value="{escape(value)}">{escape(label)}</button></form>'
    )


def _agent(visit: Visit) -> str:
    possible = "".join(f"<li>{escape(action)}</li>" for action in visit.session.page.actions)
    past = "".join(_past(number, deed) for number, deed in enumerate(visit.history, start=1))
    return (
        f"<h3>What the agent sees</h3><pre>{escape(visit.observation)}</pre>"
        f"<details><summary>Possible actions</summary><ul>{possible}</ul></details>"
        f"{_expert(visit)}<h3>History</h3>{past or '<p>Nothing yet.</p>'}"
    )


def _expert(visit: Visit) -> str:
    """Return the buttons that let the expert play, while it has something to do."""
    if visit.session.verdict is not None:
        return ""
    if visit.expert.gave_up:
        return "<p>The expert found nothing to buy.</p>"
    address = _address(visit)
    step = _form(address, "Let the expert do a step", name="expert", value="step")
    game = _form(address, "Let the expert play to the end", name="expert", value="game")
    return f"<p>{step}{game}</p>"


def _past(number: int, deed: HistoryEntry) -> str:
    who = " (expert)" if deed.by_expert else ""
    return (
        f"<details><summary>{number}. {escape(deed.action)}{who}</summary>"
        f"<pre>{escape(deed.observation)}</pre></details>"
    )
