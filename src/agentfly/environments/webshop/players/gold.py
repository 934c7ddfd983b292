"""The gold player: knows the catalog, and which product the goal was written for."""

from collections.abc import Generator

from agentfly.environments.player import Scene
from agentfly.environments.webshop.action import MAX_QUERY, Click, Search
from agentfly.environments.webshop.goal import Goal
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.players.reading import visible_pieces
from agentfly.environments.webshop.players.voice import ActionPlayer
from agentfly.environments.webshop.shop import open_shop


def gold_player(options: WebShopOptions) -> ActionPlayer:
    """Return the gold player of the shop of these options, which it opens when it plays."""

    def play_gold(scene: Scene) -> Generator[Search | Click, str, None]:
        """Search for the product's title, leaf to it, choose the goal's options and buy."""
        goal = Goal.from_row(scene.task.fields)
        page = yield Search(open_shop(options).product(goal.asin).title[:MAX_QUERY])
        while goal.asin not in visible_pieces(page):
            page = yield Click(Label.NEXT.lower())
        yield Click(goal.asin.lower())
        for value in goal.options:
            yield Click(value)
        yield Click(Label.BUY.lower())

    return play_gold
