"""The expert of the generated office."""

import re
from collections.abc import Generator

from agentfly.environments.browser.experts.view import (
    View,
    click,
    quoted,
    submit,
    type_into,
)
from agentfly.environments.player import Play, Say, call


def solve_office(goal: str, page: View) -> Play:
    """Solve a task of any kind."""
    if goal.startswith("Change"):
        yield from _edit(goal, page)
    elif goal.startswith("Order"):
        yield from _order(goal, page)
    elif goal.startswith("Send"):
        yield from _request(goal, page)
    elif goal.startswith("How many"):
        rows = yield from _rows(page, "Staff")
        team = quoted(goal)[0]
        yield from _answer(page, str(sum(row[1] == team for row in rows)))
    elif goal.startswith("Which"):
        rows = yield from _rows(page, "Stock")
        choose = min if "cheapest" in goal else max
        found = choose(rows, key=lambda row: int(row[1].removeprefix("$")))
        yield from _answer(page, found[0])
    else:
        yield from _lookup(goal, page)


def _lookup(goal: str, page: View) -> Play:
    found = yield from _record(page, "Staff", quoted(goal)[0])
    if "room" in goal:
        value = found.first(lambda item: item.name.startswith("Room "), "text").name.split()[1]
    else:
        value = found.get("Phone", "textbox").value or ""
    yield from _answer(page, value)


def _edit(goal: str, page: View) -> Play:
    name, team, phone = quoted(goal)
    record = yield from _record(page, "Staff", name)
    yield call("select", id=record.get("Team", "combobox").id, option=team)
    yield type_into(record.get("Phone", "textbox"), phone)
    yield submit(record, "Send")


def _order(goal: str, page: View) -> Play:
    record = yield from _record(page, "Stock", quoted(goal)[0])
    yield type_into(record.get("Amount", "textbox"), re.findall(r"Order (\d+)", goal)[0])
    yield submit(record, "Send")


def _request(goal: str, page: View) -> Play:
    name, kind, color = quoted(goal)
    form = View((yield click(page.get("Request", "link"))))
    yield type_into(form.get("For whom", "textbox"), name)
    yield call("select", id=form.get("Kind", "combobox").id, option=kind)
    yield call("select", id=form.get("Color", "combobox").id, option=color)
    yield type_into(form.get("Amount", "textbox"), re.findall(r": (\d+) of kind", goal)[0])
    if not goal.endswith("not urgent."):
        yield click(form.get("Urgent", "checkbox"))
    yield submit(form, "Send")


def _answer(page: View, value: str) -> Play:
    form = View((yield click(page.get("Answer", "link"))))
    yield type_into(form.of("textbox")[0], value)
    yield submit(form, "Send")


def _record(page: View, table: str, name: str) -> Generator[Say, str, View]:
    """Open the record of a name, turning the pages of its table."""
    page = View((yield click(page.get(table, "link"))))
    while page.find(name, "link") is None:
        page = View((yield click(page.get("Next page", "link"))))
    return View((yield click(page.get(name, "link"))))


def _rows(page: View, table: str) -> Generator[Say, str, list[list[str]]]:
    """Read all pages of a table; return its rows, each of three cells."""
    page = View((yield click(page.get(table, "link"))))
    rows = []
    while True:
        names = [item.name for item in page.items]
        start = (
            names.index("Name | Team | Room")
            if table == "Staff"
            else names.index("Item | Price | Amount")
        )
        rows += [names[place : place + 3] for place in range(start + 1, len(names) - 2, 3)]
        if page.find("Next page", "link") is None:
            return rows
        page = View((yield click(page.get("Next page", "link"))))
