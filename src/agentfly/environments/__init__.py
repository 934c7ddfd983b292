"""Built-in environments: one folder each, with its state, tools, reward and tasks.

Names are imported on first use, so that the index can be read without importing any of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentfly.environments.catalog import ENVIRONMENTS as ENVIRONMENTS
    from agentfly.environments.catalog import environment_names as environment_names
    from agentfly.environments.catalog import find_definition as find_definition
    from agentfly.environments.catalog import find_environment as find_environment
    from agentfly.environments.catalog import load_environment as load_environment
    from agentfly.environments.catalog import make_kit as make_kit
    from agentfly.environments.kit import EnvironmentDefinition as EnvironmentDefinition
    from agentfly.environments.kit import Kit as Kit
    from agentfly.environments.player import Player as Player
    from agentfly.environments.player import PlayerModel as PlayerModel
    from agentfly.environments.player import Say as Say
    from agentfly.environments.player import Scene as Scene
    from agentfly.environments.player import call as call

_NAMES_BY_MODULE = {
    "catalog": (
        "ENVIRONMENTS",
        "environment_names",
        "find_definition",
        "find_environment",
        "load_environment",
        "make_kit",
    ),
    "kit": ("EnvironmentDefinition", "Kit"),
    "player": ("Player", "PlayerModel", "Say", "Scene", "call"),
}
_MODULE_OF = {
    name: f"agentfly.environments.{module}"
    for module, names in _NAMES_BY_MODULE.items()
    for name in names
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'agentfly.environments' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
