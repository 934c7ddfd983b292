"""Built-in environments: one folder each, with its state, tools, reward and tasks."""

from agentfly.environments.catalog import (
    ENVIRONMENTS,
    environment_names,
    find_definition,
    find_environment,
    load_environment,
    make_kit,
)
from agentfly.environments.kit import EnvironmentDefinition, Kit
from agentfly.environments.player import Player, PlayerModel, Say, Scene, call

__all__ = [
    "ENVIRONMENTS",
    "EnvironmentDefinition",
    "Kit",
    "Player",
    "PlayerModel",
    "Say",
    "Scene",
    "call",
    "environment_names",
    "find_definition",
    "find_environment",
    "load_environment",
    "make_kit",
]
