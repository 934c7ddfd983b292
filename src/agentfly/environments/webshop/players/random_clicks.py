"""The random player: searches for some of the instruction's words and clicks whatever it sees."""

from collections.abc import Generator

from agentfly.environments.player import Scene
from agentfly.environments.webshop.action import Click, Search
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.players.reading import visible_pieces
from agentfly.environments.webshop.players.wish import parse_instruction


def play_random(scene: Scene) -> Generator[Search | Click, str, None]:
    """Play for ever: the chain's turns end it."""
    words = parse_instruction(scene.observation).words
    seen = visible_pieces(scene.observation)
    while True:
        if Label.BACK_TO_SEARCH in seen:
            observation = yield Click(scene.random.choice(seen).lower())
        else:
            picked = scene.random.sample(words, scene.random.randint(1, len(words)))
            observation = yield Search(" ".join(picked))
        seen = visible_pieces(observation)
