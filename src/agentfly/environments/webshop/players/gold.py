"""The gold player: is told which product the goal was written for."""

from collections.abc import Generator

from agentfly.environments.player import Scene
from agentfly.environments.webshop.action import MAX_QUERY, Click, Search
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.players.reading import visible_pieces


def play_gold(scene: Scene) -> Generator[Search | Click, str, None]:
    """Search for the product's title, leaf to it, choose the goal's options and buy."""
    goal = scene.task.fields
    page = yield Search(goal["name"][:MAX_QUERY])
    while goal["asin"] not in visible_pieces(page):
        page = yield Click(Label.NEXT.lower())
    yield Click(goal["asin"].lower())
    for value in goal["options"]:
        yield Click(value)
    yield Click(Label.BUY.lower())
