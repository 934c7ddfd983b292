"""The HTML of the website. Every text of a product is escaped, as none is trusted."""

from html import escape

from agentfly.environments.webshop.navigation import MAX_QUERY, AtItem
from agentfly.environments.webshop.page import Kind, Label, Piece, Row
from agentfly.environments.webshop.visit import HistoryEntry, Visit

_STYLE = """
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: #222; background: #f6f5f2 }
header { padding: 12px 24px; background: #23395b; color: #fff }
header form { float: right }
main { display: grid; grid-template-columns: 3fr 2fr; gap: 24px; padding: 24px }
section { background: #fff; border: 1px solid #ddd; border-radius: 8px; padding: 16px 24px }
form { display: inline } .row { padding: 6px 0; border-bottom: 1px solid #eee }
button { margin: 2px 4px 2px 0; padding: 4px 10px; border: 1px solid #9ab; border-radius: 6px;
         background: #eef3f8; font: inherit; cursor: pointer }
button.chosen { background: #23395b; color: #fff } button.buy { background: #ffcf56 }
input { padding: 6px 10px; width: 60%; font: inherit }
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
    rows = "".join(_row(row, visit) for row in visit.session.page.rows)
    return rows + _verdict(visit)


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
    text = escape(piece.text)
    if piece.kind is Kind.TEXT:
        return f"<span>{text}</span>"
    address = f"/visits/{visit.id}"
    if piece.kind is Kind.BOX:
        return (
            f'<form method="post" action="{address}">'
            f'<input name="query" autofocus maxlength="{MAX_QUERY}"><button>{text}</button></form>'
        )
    return _form(address, piece.text, value=f"click[{piece.text}]", look=_look(piece, visit))


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
    address = f"/visits/{visit.id}"
    step = _form(address, "Let the expert do a step", name="expert", value="step")
    game = _form(address, "Let the expert play to the end", name="expert", value="game")
    return f"<p>{step}{game}</p>"


def _past(number: int, deed: HistoryEntry) -> str:
    who = " (expert)" if deed.by_expert else ""
    return (
        f"<details><summary>{number}. {escape(deed.action)}{who}</summary>"
        f"<pre>{escape(deed.observation)}</pre></details>"
    )
