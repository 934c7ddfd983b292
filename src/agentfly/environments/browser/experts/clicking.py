"""Experts of MiniWoB's tasks that are solved by clicking."""

import re
from collections.abc import Callable

from agentfly.environments.browser.experts.view import (
    BUTTONS,
    MAX_LOOKS,
    View,
    between,
    click,
    quoted,
    submit,
)
from agentfly.environments.browser.snapshot import Item
from agentfly.environments.player import Play, call

LARGE = 15
"""Shapes of MiniWoB are 10 or 20 pixels wide; letters 11 or 22 high."""
_SHAPES = ("glyph", "rect", "circle", "polygon")
_COLORS = {"aqua": "cyan"}
"""Names of colors that pages show under another name."""
_ROLES = {"rectangle": "rect", "circle": "circle", "triangle": "polygon"}


def only_button(goal: str, page: View) -> Play:
    """Click the only button."""
    del goal
    yield click(page.of("button")[0])


def named_button(goal: str, page: View) -> Play:
    """Click `ONE` in `Click button ONE.`."""
    yield click(page.get(between(goal, "button ", "."), "button"))


def quoted_target(goal: str, page: View) -> Play:
    """Click what is quoted: a button or a link."""
    name = quoted(goal)[0]
    yield click(page.get("Close" if name == "x" else name, *BUTTONS))


def button_sequence(goal: str, page: View) -> Play:
    """Click ONE, then TWO."""
    del goal
    yield click(page.get("ONE", "button"))
    yield click(page.get("TWO", "button"))


def checkboxes(goal: str, page: View) -> Play:
    """Check the named boxes and submit."""
    for name in between(goal, "Select ", " and click").split(", "):
        if name != "nothing":
            yield click(page.get(name, "checkbox"))
    yield submit(page)


def option(goal: str, page: View) -> Play:
    """Choose a radio button and submit."""
    yield click(page.get(between(goal, "Select ", " and click"), "radio"))
    yield submit(page)


def from_list(goal: str, page: View) -> Play:
    """Select an option of a list and submit."""
    wanted = between(goal, "Select ", " from the list")
    yield call("select", id=page.of("combobox")[0].id, option=wanted)
    yield submit(page)


def from_scroll_list(goal: str, page: View) -> Play:
    """Select several options of a list and submit."""
    for wanted in between(goal, "Select ", " from the scroll list").split(", "):
        yield call("select", id=page.of("listbox")[0].id, option=wanted)
    yield submit(page)


def tab(goal: str, page: View) -> Play:
    """Click a tab by its name."""
    yield click(page.get(between(goal, "Click on ", "."), "tab"))


def link_in_tabs(goal: str, page: View) -> Play:
    """Look for a link behind each tab, or in each section."""
    wanted = quoted(goal)[0]
    for item in page.of("tab"):
        if page.find(wanted, "clickable", "link") is None and "selected" not in item.states:
            before = _contents(page)
            page = View((yield click(item)))
            # A section takes a while to open, and the one before it stays visible meanwhile.
            for _ in range(MAX_LOOKS):
                if _contents(page) and not _contents(page) & before:
                    break
                page = View((yield call("read")))
        if found := page.find(wanted, "clickable", "link"):
            yield click(found)
            return


def _contents(page: View) -> set[int]:
    return {item.id for item in page.of("clickable", "link", "text")}


def collapsible(goal: str, page: View) -> Play:
    """Open the section and submit."""
    del goal
    yield click(page.of("tab")[0])
    page = View((yield call("read")))
    yield click(page.get("Submit", "button", "tab"))


def color(goal: str, page: View) -> Play:
    """Click the box of a color."""
    wanted = between(goal, "on the ", " colored")
    yield click(page.first(lambda item: wanted in item.name.split(), "box"))


def count_shapes(goal: str, page: View) -> Play:
    """Count the shapes that fit a description."""
    shapes = page.of(*_SHAPES)
    fits = described(between(goal, "How many ", " are there"))
    yield click(page.get(str(sum(map(fits, shapes))), "button"))


def described(text: str) -> Callable[[Item], bool]:
    """Return a test whether a shape fits words such as `large red circles`, `3s` or `letters`."""
    words = [word for word in re.split(r"\W+", text) if word not in ("Click", "on", "a", "")]

    def fits(item: Item) -> bool:
        return item.role in _SHAPES and all(_has(item, word) for word in words)

    return fits


def _has(item: Item, word: str) -> bool:
    *about, size = item.name.split()
    height = int(size.partition("x")[2])
    letter = about[0] if item.role == "glyph" else ""
    plain = word[:-1] if len(word) > 1 and word.endswith("s") else word
    if word in ("large", "small"):
        return (height > LARGE) == (word == "large")
    if plain in _ROLES:
        return item.role == _ROLES[plain]
    if plain in ("letter", "digit"):
        return bool(letter) and letter.isdigit() == (plain == "digit")
    if plain == "shape":
        return not letter
    if plain == "item":
        return True
    return _COLORS.get(word, word) in about[bool(letter) :] or plain == letter


def identify_shape(goal: str, page: View) -> Play:
    """Click the button that names the shape."""
    del goal
    found = page.of(*_SHAPES)[0]
    letter = found.name[0]
    names = {"circle": "Circle", "rect": "Rectangle", "polygon": "Triangle"}
    name = names.get(found.role) or ("Number" if letter.isdigit() else "Letter")
    yield click(page.get(name, "button"))


def ticket(goal: str, page: View) -> Play:
    """Book the ticket with the lowest or highest price or duration."""
    tickets = page.of("button")
    times = [
        (item.id, 60 * int(hours) + int(minutes))
        for item in page.of("text")
        if (found := re.fullmatch(r"(\d+)h (\d+)m", item.name))
        for hours, minutes in [found.groups()]
    ]
    if "duration" in goal:
        best = (min if "shortest" in goal else max)(times, key=lambda pair: pair[1])[0]
        yield click(page.first(lambda item: item.id > best, "button"))
    else:
        choose = min if "cheapest" in goal else max
        yield click(choose(tickets, key=lambda item: int(re.sub(r"\D", "", item.name))))


def tree(goal: str, page: View) -> Play:
    """Open folders of a tree until the file is there."""
    wanted, opened = quoted(goal)[0], set[int]()
    while (found := page.find(wanted)) is None:
        # A click on the name of a file ends the task.
        handle = page.first(
            lambda item: "expandable-hitarea" in item.name and item.id not in opened, "box"
        )
        opened.add(handle.id)
        page = View((yield click(handle)))
    yield click(found)
