"""How a player's moves are said: as calls of tools, or as plain text."""

from collections.abc import Callable, Generator

from agentfly.environments.player import Player, Say, Scene, call
from agentfly.environments.webshop.action import Click, Search
from agentfly.environments.webshop.page import Label

ActionPlayer = Callable[[Scene], Generator[Search | Click, str, None]]
"""A player that yields moves and is sent observations."""


def to_player(moves: ActionPlayer, actions: str) -> Player:
    """Make a player of moves, for one of the choices of `WebShopOptions.actions`."""
    say = {"tools": _by_three_tools, "tool": _by_one_tool, "text": _in_text}[actions]

    def player(scene: Scene) -> Generator[Say, str, None]:
        playing = moves(scene)
        move = next(playing)
        while True:
            observation = yield say(move)
            try:
                move = playing.send(observation)
            except StopIteration:
                return

    return player


def write_action(move: Search | Click) -> str:
    """Write a move as an action.

    >>> written(Click("buy now"))
    'click[buy now]'
    """
    return f"search[{move.query}]" if isinstance(move, Search) else f"click[{move.label}]"


def _by_three_tools(move: Search | Click) -> Say:
    if isinstance(move, Search):
        return call("search", query=move.query)
    return call("buy") if move.label == Label.BUY.lower() else call("click", label=move.label)


def _by_one_tool(move: Search | Click) -> Say:
    return call("act", action=write_action(move))


def _in_text(move: Search | Click) -> Say:
    return Say(write_action(move))
