"""Scripted players of the shop."""

from agentfly.environments.webshop.players.expert import play_expert
from agentfly.environments.webshop.players.gold import gold_player
from agentfly.environments.webshop.players.random_clicks import play_random
from agentfly.environments.webshop.players.voice import ActionPlayer, to_player, write_action

__all__ = ["ActionPlayer", "gold_player", "play_expert", "play_random", "to_player", "write_action"]
