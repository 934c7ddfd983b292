"""Experts of MiniWoB's tasks that are solved by typing."""

import re

from agentfly.environments.browser.experts.view import (
    FIELDS,
    MAX_LOOKS,
    View,
    between,
    click,
    quoted,
    submit,
    type_into,
)
from agentfly.environments.browser.snapshot import Item
from agentfly.environments.player import Play, call


def one_text(goal: str, page: View) -> Play:
    """Type the quoted text and submit."""
    yield type_into(page.of("textbox")[0], quoted(goal)[0])
    yield submit(page)


def text_in_case(goal: str, page: View) -> Play:
    """Type the quoted text in upper or lower case."""
    text = quoted(goal)[0]
    text = text.upper() if "upper case" in goal else text.lower() if "lower case" in goal else text
    yield type_into(page.of("textbox")[0], text)
    yield submit(page)


def password(goal: str, page: View) -> Play:
    """Type a password twice."""
    for field in page.of(*FIELDS):
        yield type_into(field, quoted(goal)[0])
    yield submit(page)


def login(goal: str, page: View) -> Play:
    """Type a name and a password."""
    name, secret = quoted(goal)[:2]
    first, second = page.of(*FIELDS)[:2]
    yield type_into(first, name)
    yield type_into(second, secret)
    yield submit(page, "Login")


def date(goal: str, page: View) -> Play:
    """Type a date into a field for dates, which takes it as year, month, day."""
    month, day, year = between(goal, "Enter ", " as").split("/")
    yield type_into(page.of("date")[0], f"{year}-{month}-{day}")
    yield submit(page)


def time(goal: str, page: View) -> Play:
    """Type a time such as 3:05 PM into a field for times, which takes 15:05."""
    hour, minute, half = re.findall(r"(\d+):(\d+) ([AP])M", goal)[0]
    hours = int(hour) % 12 + (12 if half == "P" else 0)
    yield type_into(page.of("time", "textbox")[0], f"{hours:02}:{minute}")
    yield submit(page)


def focus(goal: str, page: View) -> Play:
    """Click the field that is asked for."""
    number = re.search(r"(\d+)(?:st|nd|rd|th)", goal)
    yield click(page.of("textbox")[int(number.group(1)) - 1 if number else 0])


def copy(goal: str, page: View) -> Play:
    """Type the text of one area into the empty field."""
    number = re.search(r"(\d+)(?:st|nd|rd|th)", goal)
    areas = [item for item in page.of("textbox") if item.value]
    area = areas[int(number.group(1)) - 1 if number else 0]
    empty = page.first(lambda item: not item.value, "textbox")
    yield type_into(empty, area.value or "")
    yield submit(page)


def table_value(goal: str, page: View) -> Play:
    """Type the value of a row's field."""
    yield from _table(page, [between(goal, "value of ", " into")])


def table_values(goal: str, page: View) -> Play:
    """Type the values that the table has for the names beside the fields."""
    yield from _table(page, re.findall(r'"([^"]+)"', goal))


def _table(page: View, names: list[str]) -> Play:
    rows = dict(item.name.split(" | ", 1) for item in page.of("row") if " | " in item.name)
    labels = [item.name.rstrip(":") for item in page.of("text") if item.name.rstrip(":") in rows]
    for field, name in zip(page.of("textbox"), labels or names, strict=False):
        yield type_into(field, rows[name])
    yield submit(page)


def word(goal: str, page: View) -> Play:
    """Type a word of the paragraph by its place in it."""
    number = int(re.findall(r"(\d+)(?:st|nd|rd|th)", goal)[0])
    words = " ".join(item.name for item in page.of("text")).split()
    yield type_into(page.of("textbox")[0], words[number - 1].strip(".,"))
    yield submit(page)


def algebra(goal: str, page: View) -> Play:
    """Solve for x in sums such as `3 + x = 8`."""
    del goal
    text = " ".join(item.name for item in page.of("text"))
    left, sign, right, result = re.findall(
        r"([-x\d]+)\s*([-+x*])\s*([-x\d]+)\s*=\s*([-x\d]+)", text
    )[0]
    for value in range(-200, 401):
        parts = [value if one == "x" else int(one) for one in (left, right, result)]
        made = parts[0] + parts[1] if sign == "+" else parts[0] - parts[1]
        if made == parts[2]:
            yield type_into(page.of("textbox", "spinbutton")[0], str(value))
            yield submit(page)
            return


def arithmetic(goal: str, page: View) -> Play:
    """Work out a sum such as `3 x 4 =`."""
    del goal
    text = " ".join(item.name for item in page.of("text", "glyph"))
    left, sign, right = re.findall(r"(-?\d+)\s*([-+x*])\s*(-?\d+)", text)[0]
    a, b = int(left), int(right)
    value = a + b if sign == "+" else a - b if sign == "-" else a * b
    yield type_into(page.of("textbox", "spinbutton")[0], str(value))
    yield submit(page)


def autocomplete(goal: str, page: View) -> Play:
    """Type the beginning, then choose what begins and ends as asked."""
    start, *end = quoted(goal)
    yield type_into(page.of("textbox")[0], start)
    # The list opens after a delay; this key opens it at once.
    page = View((yield call("press", key="ArrowDown")))
    for _ in range(MAX_LOOKS):
        fitting = [
            item
            for item in page.items
            if item.role not in ("textbox", "button")
            and item.name.lower().startswith(start.lower())
            and (not end or item.name.lower().endswith(end[0].lower()))
        ]
        page = View((yield click(fitting[0]) if fitting else call("read")))
        # After its delay the list is made again, and the item that was seen is gone.
        if fitting and any(field.value == fitting[0].name for field in page.of("textbox")):
            break
    for _ in range(MAX_LOOKS):
        yield submit(page)
        # Not over: the list has opened again after its delay, and covers the button.
        yield call("press", key="Escape")


def search_engine(goal: str, page: View) -> Play:
    """Search, go to the right page of results, and click one by its number."""
    number = int(re.findall(r"(\d+)(?:st|nd|rd|th)", goal)[0])
    yield type_into(page.of("textbox")[0], quoted(goal)[0])
    page = View((yield submit(page, "Search")))
    results = _results(page)
    per_page = len(results)
    wanted_page, place = divmod(number - 1, per_page)
    if wanted_page:
        page = View((yield click(page.get(str(wanted_page + 1), "link", "clickable"))))
        results = _results(page)
    yield click(results[place])


def _results(page: View) -> list[Item]:
    return [item for item in page.of("link") if not re.fullmatch(r"[\d<>]+", item.name)]
