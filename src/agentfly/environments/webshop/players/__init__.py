"""Scripted players of the shop."""

from agentfly.environments.webshop.players.expert import play_expert
from agentfly.environments.webshop.players.gold import gold_in
from agentfly.environments.webshop.players.random_clicks import play_random
from agentfly.environments.webshop.players.voice import Moves, speaking, written

__all__ = ["Moves", "gold_in", "play_expert", "play_random", "speaking", "written"]
