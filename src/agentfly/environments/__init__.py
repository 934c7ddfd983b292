"""Environments that come ready-made: one folder each, with its state, tools, reward and tasks."""

from agentfly.environments.catalogue import ENVIRONMENTS, find_ready_made
from agentfly.environments.kit import Kit, ReadyMade
from agentfly.environments.player import Player, PlayerModel, Say, Scene, call

__all__ = [
    "ENVIRONMENTS",
    "Kit",
    "Player",
    "PlayerModel",
    "ReadyMade",
    "Say",
    "Scene",
    "call",
    "find_ready_made",
]
