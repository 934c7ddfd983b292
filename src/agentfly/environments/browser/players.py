"""Scripted players of the browser: an expert, and one that clicks anything."""

import json
from contextlib import suppress
from dataclasses import replace

from agentfly.environments.browser.experts.miniwob import EXPERTS
from agentfly.environments.browser.experts.office import solve_office
from agentfly.environments.browser.experts.view import FIELDS, Play, View
from agentfly.environments.player import Say, Scene, call
from agentfly.errors import EngineError


def expert(scene: Scene) -> Play:
    """Solve a task by what its pages show; EngineError if there is no expert for it."""
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
            raise EngineError(f"there is no expert for the task {scene.task.id!r}")
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


def random(scene: Scene) -> Play:
    """Click, type and select at random, without end."""
    page = View(scene.observation)
    while True:
        page = View((yield _random_action(scene, page)))


def _random_action(scene: Scene, page: View) -> Say:
    items = page.items
    if not items:
        return call("read")
    item = scene.random.choice(items)
    if item.role in FIELDS:
        words = scene.observation.partition("\n")[0].split()
        return call("type", id=item.id, text=scene.random.choice(words).strip('".,'))
    if item.options:
        return call("select", id=item.id, option=scene.random.choice(item.options))
    return call("click", id=item.id)
