"""Environments that come ready-made: one folder each, with its state, tools, reward and tasks."""

from agentfly.environments.catalog import (
    ENVIRONMENTS,
    environment_names,
    find_environment,
    find_ready_made,
    load_environment,
    make_kit,
)
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
    "environment_names",
    "find_environment",
    "find_ready_made",
    "load_environment",
    "make_kit",
]
