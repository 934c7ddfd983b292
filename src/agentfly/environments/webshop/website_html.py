"""The HTML of the website. Every text of a product is escaped, as none is trusted."""

from html import escape

from agentfly.environments.webshop.shop_html import STYLE, form_button, shop_section
from agentfly.environments.webshop.visit import HistoryEntry, Visit


def visit_page(visit: Visit) -> str:
    """Return the page of a visit: the shop, and next to it the session as an agent sees it."""
    goal = escape(visit.session.goal.instruction)
    with visit.lock:
        shop = shop_section(visit.session, _address(visit)) + _verdict(visit)
        agent = _agent(visit)
    return _document(
        f"<header>{form_button('/', 'Another goal')}<b>WebShop</b><br>{goal}</header>"
        f"<main><section>{shop}</section><section>{agent}</section></main>"
    )


def message_page(message: str) -> str:
    """Return a page with only a message."""
    return _document(
        f"<header><b>WebShop</b></header><main><section><p>{escape(message)}</p>"
        f"{form_button('/', 'Begin a new session')}</section></main>"
    )


def _document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>WebShop</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>"
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


def _address(visit: Visit) -> str:
    return f"/visits/{visit.id}"


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
    step = form_button(address, "Let the expert do a step", name="expert", value="step")
    game = form_button(address, "Let the expert play to the end", name="expert", value="game")
    return f"<p>{step}{game}</p>"


def _past(number: int, deed: HistoryEntry) -> str:
    who = " (expert)" if deed.by_expert else ""
    return (
        f"<details><summary>{number}. {escape(deed.action)}{who}</summary>"
        f"<pre>{escape(deed.observation)}</pre></details>"
    )
