"""Experts of MiniWoB's tasks with several steps: forms, lists, mails."""

import json
import re

from agentfly.environments.browser.experts.view import (
    BUTTONS,
    View,
    between,
    click,
    quoted,
    submit,
    type_into,
)
from agentfly.environments.browser.snapshot import Item
from agentfly.environments.player import Play, Say, call

MAX_SCROLLS = 30
"""Maximum number of scrolls to an end of a text area."""


def odd_or_even(goal: str, page: View) -> Play:
    """Mark every number."""
    del goal
    for place, item in enumerate(page.items):
        if item.role == "text" and re.fullmatch(r"-?\d+", item.name):
            odd = int(item.name) % 2
            yield click(page.items[place - 1 if odd else place + 1])
    yield submit(page)


def phone_book(goal: str, page: View) -> Play:
    """Turn the pages to a person, and click what is asked for."""
    name = between(goal, "Find ", " in the")
    while page.find(name, "heading") is None:
        page = View((yield click(page.get(">", "link"))))
    label = {"phone number": "Phone:", "email": "Email:", "address": "Address:"}
    asked = between(goal, "their ", ".")
    place = page.items.index(page.get(label[asked], "text"))
    yield click(page.items[place + 1])


def social_media(goal: str, page: View) -> Play:
    """Use a button of a user's post."""
    user, action = between(goal, "user ", ","), quoted(goal)[0]
    place = next(n for n, item in enumerate(page.items) if user in item.name.split())
    post = page.items[place:]
    direct = next((i for i in post[:6] if i.role == "box" and action.lower() in i.name), None)
    if direct is not None:
        yield click(direct)
        return
    more = next(item for item in post if item.role == "box" and item.name.startswith("more"))
    page = View((yield click(more)))
    yield click(page.first(lambda item: item.name.startswith(action), "text", "clickable"))


def email(goal: str, page: View) -> Play:
    """Open a mail, then delete, star, forward or answer it."""
    sender = between(goal, "by ", " and")
    page = View(
        (yield click(page.first(lambda item: item.name.startswith(f"{sender} "), *BUTTONS)))
    )
    if "trash" in goal or "star" in goal:
        icon = "trash" if "trash" in goal else "star"
        yield click(page.first(lambda item: icon in item.name))
        return
    reply = "reply" in goal
    page = View(
        (yield click(page.first(lambda item: ("Reply" if reply else "Forward") in item.name)))
    )
    fields = page.of("textbox")
    if reply:
        yield type_into(fields[-1], goal.rpartition('the text "')[2].removesuffix('".'))
    else:
        yield type_into(fields[0], between(goal, "email to ", "."))
    yield click(page.first(lambda item: "send" in item.name.lower()))


def last_word(goal: str, page: View) -> Play:
    """Read the whole text area, and type its last word."""
    del goal
    area, field = page.of("textbox")[:2]
    text, _ = json.JSONDecoder().raw_decode((yield call("read", id=area.id)))
    yield type_into(field, text.split()[-1].strip(".,"))
    yield submit(page)


def scroll_area(goal: str, page: View) -> Play:
    """Scroll a text area to its end or its beginning."""
    direction = "down" if "bottom" in goal else "up"
    area = page.of("textbox")[0]
    for _ in range(MAX_SCROLLS):
        said = yield call("scroll", direction=direction, id=area.id)
        if "already" in said or "is at its" in said:
            break
    yield submit(page)


def visual_addition(goal: str, page: View) -> Play:
    """Count blocks."""
    del goal
    blocks = [item for item in page.of("box") if item.name.startswith("addition-block")]
    yield type_into(page.of("textbox")[0], str(len(blocks)))
    yield submit(page)


def guess_number(goal: str, page: View) -> Play:
    """Try numbers one after another."""
    del goal
    field = page.of("spinbutton")[0]
    for number in range(10):
        yield type_into(field, str(number))
        yield submit(page)


def generate_number(goal: str, page: View) -> Play:
    """Generate numbers until one fits."""
    while True:
        page = View((yield click(page.get("Generate", "button"))))
        if _number_fits(goal, int(page.first(_is_number, "text").name)):
            yield submit(page)


def _is_number(item: Item) -> bool:
    return re.fullmatch(r"-?\d+", item.name) is not None


def _number_fits(goal: str, number: int) -> bool:
    bound = re.search(r"(less|greater) than (-?\d+)", goal)
    if bound:
        limit = int(bound.group(2))
        return number < limit if bound.group(1) == "less" else number > limit
    return number % 2 == ("odd" in goal)


def movie_search(goal: str, page: View) -> Play:
    """Fill in a form whose labels come before or after their fields, in any order."""
    genre, director, year = re.findall(r"for (\S+) movies directed by (\S+) from year (\d+)", goal)[
        0
    ]
    values = {"genre": genre, "director": director, "year": year, "released": year}
    labels = [key for item in page.of("text") for key in values if key in item.name.lower()]
    for key, field in zip(labels, page.of("textbox"), strict=True):
        yield type_into(field, values[key])
    yield click(page.of(*BUTTONS)[-1])


def slider(goal: str, page: View) -> Play:
    """Move sliders with the arrow keys, then do the rest."""
    if "combination" in goal:
        wanted = [int(one) for one in re.findall(r"-?\d+", goal)]
    else:
        wanted = [int(re.findall(r"Select (-?\d+)", goal)[0])]
    handles = [item for item in page.of("box") if item.name.startswith("ui-slider-handle")]
    for number, (handle, value) in enumerate(zip(handles, wanted, strict=True)):
        while (now := int(_values_after(page, handles)[number])) != value:
            key = "ArrowRight" if value > now else "ArrowLeft"
            page = View((yield call("press", key=key, id=handle.id)))
    boxes = re.search(r"(\d+)(?:st|nd|rd|th) checkbox", goal)
    if boxes:
        yield click(page.of("checkbox")[int(boxes.group(1)) - 1])
    yield submit(page)


def _values_after(page: View, handles: list[Item]) -> list[str]:
    places = {item.id: place for place, item in enumerate(page.items)}
    return [page.items[places[handle.id] + 1].name for handle in handles]


def radio_and_number(goal: str, page: View) -> Play:
    """Choose a radio button and fill in a field by their places."""
    radio, field = map(int, re.findall(r"(\d+)(?:st|nd|rd|th)", goal))
    yield click(page.of("radio")[radio - 1])
    yield type_into(page.of("textbox")[field - 1], quoted(goal)[0])
    yield submit(page)


def spinner(goal: str, page: View) -> Play:
    """Step a spinner up or down with the arrow keys."""
    wanted = int(re.findall(r"Select (-?\d+)", goal)[0])
    field = page.of("textbox", "spinbutton")[0]
    for _ in range(abs(wanted)):
        yield _arrow(field, up=wanted > 0)
    yield submit(page)


def _arrow(field: Item, *, up: bool) -> Say:
    return call("press", key="ArrowUp" if up else "ArrowDown", id=field.id)


def letters(goal: str, page: View) -> Play:
    """Type letters that are shown apart."""
    del goal
    text = "".join(item.name for item in page.of("text")).replace(" ", "")
    yield type_into(page.of("textbox")[0], text)
    yield submit(page)
