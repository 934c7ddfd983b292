"""The expert of the shop: the one of the text version, whose actions become clicks."""

from random import Random

from agentfly.environments.browser.experts.view import View, click, submit, type_into
from agentfly.environments.browser.snapshot import Item
from agentfly.environments.player import Play, Scene
from agentfly.environments.webshop.navigation import Search
from agentfly.environments.webshop.players import play_expert
from agentfly.environments.webshop.storefront import SEPARATOR
from agentfly.types import Task


def solve_shop(goal: str, page: View) -> Play:
    """Play as the expert of the text version does, on what the pages show."""
    task = Task.from_row({"id": "shop"})
    playing = play_expert(Scene(task=task, observation=f"Instruction: {goal}", random=Random(0)))
    action = next(playing)
    while True:
        if isinstance(action, Search):
            yield type_into(page.of("textbox")[0], action.query)
            page = View((yield submit(page, "Search")))
        else:
            page = View((yield click(_button(page, action.label))))
        try:
            action = playing.send(SEPARATOR.join(item.name for item in page.items))
        except StopIteration:
            return


def _button(page: View, label: str) -> Item:
    return page.first(lambda item: item.name.lower() == label.lower(), "button")
