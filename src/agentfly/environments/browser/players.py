"""Scripted players of the browser: an expert, and one that clicks anything."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from agentfly.environments.browser.experts.miniwob import EXPERTS
from agentfly.environments.browser.experts.office import solve_office
from agentfly.environments.browser.experts.view import FIELDS, View
from agentfly.environments.browser.options import ToolName
from agentfly.environments.browser.snapshot import Item
from agentfly.environments.player import NoPlayerError, Play, Player, Say, Scene, call


def expert(scene: Scene) -> Play:
    """Solve a task by what its pages show; NoPlayerError if there is no expert for it."""
    goal, _, page = scene.observation.partition("\n")
    goal = goal.removeprefix("Task: ")
    fields = scene.task.fields
    match fields.get("site"):
        case "miniwob" if fields.get("task") in EXPERTS:
            yield from EXPERTS[fields["task"]](goal, View(page))
        case "office":
            yield from solve_office(goal, View(page))
        case "webshop":
            # It needs the packages of the environment `webshop`, and no other site does.
            from agentfly.environments.browser.experts.webshop import solve_shop

            yield from solve_shop(goal, View(page))
        case _:
            name = fields.get("task", scene.task.id)
            raise NoPlayerError(f"there is no expert for the task {name!r}")
    yield Say("That should have been it.")


def pointing_expert(scene: Scene) -> Play:
    """Solve a task, and write the element before a call if the last observation shows it."""
    play, page = expert(scene), scene.observation
    with suppress(StopIteration):
        said = next(play)
        while True:
            page = yield replace(said, words=said.words or _pointer(said, View(page)))
            said = play.send(page)


def _pointer(said: Say, page: View) -> str:
    """Return the element of a call as the page shows it."""
    ids = {json.loads(call.arguments).get("id") for call in said.calls}
    return " ".join(item.pointer("after") for item in page.items if item.id in ids)


def random_player(tools: Collection[ToolName]) -> Player:
    """Return a player that clicks, types and selects at random, without end, by these tools."""

    def random(scene: Scene) -> Play:
        items = View(scene.observation).items
        while True:
            found = View((yield _random_action(scene, items, tools))).items
            # An observation of changes may show none; without `read`, earlier ones are used.
            items = found if found or "read" in tools else items

    return random


def _random_action(scene: Scene, items: Sequence[Item], tools: Collection[ToolName]) -> Say:
    usable = [(name, item) for item in items if (name := _tool_for(item)) in tools]
    if not usable:
        usable = [("click", item) for item in items if "click" in tools]
    if not usable:
        name = "read" if "read" in tools else scene.random.choice(sorted(tools))
        return call(name, **_WITHOUT_ELEMENT[name])
    name, item = scene.random.choice(usable)
    if name == "type":
        words = scene.observation.partition("\n")[0].split()
        return call("type", id=item.id, text=scene.random.choice(words).strip('".,'))
    if name == "select":
        return call("select", id=item.id, option=scene.random.choice(item.enabled_options))
    return call("click", id=item.id)


def _tool_for(item: Item) -> ToolName:
    if item.role in FIELDS:
        return "type"
    return "select" if item.enabled_options else "click"


_WITHOUT_ELEMENT: Mapping[ToolName, Mapping[str, object]] = {
    "open": {"url": "/"},
    "click": {"id": 1},
    "type": {"id": 1, "text": ""},
    "select": {"id": 1, "option": ""},
    "press": {"key": "Tab"},
    "scroll": {},
    "back": {},
    "read": {},
    "tabs": {},
}
"""Arguments of a tool where the page shows no element that it is for."""
