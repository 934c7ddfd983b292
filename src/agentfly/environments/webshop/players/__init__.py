"""Scripted players of the shop."""

from agentfly.environments.webshop.players.expert import play_expert
from agentfly.environments.webshop.players.gold import play_gold
from agentfly.environments.webshop.players.random_clicks import play_random
from agentfly.environments.webshop.players.voice import Moves, speaking

__all__ = ["Moves", "play_expert", "play_gold", "play_random", "speaking"]
