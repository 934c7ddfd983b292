"""The ready-made environments by name. One is imported when it is first asked for."""

from importlib import import_module
from types import MappingProxyType
from typing import Any

from agentfly.environments.kit import ReadyMade
from agentfly.runtime.names import look_up

ENVIRONMENTS = MappingProxyType(
    {
        "alfworld": "agentfly.environments.alfworld.ready_made:ALFWORLD",
        "code": "agentfly.environments.code.ready_made:CODE",
        "scienceworld": "agentfly.environments.scienceworld.ready_made:SCIENCEWORLD",
        "search": "agentfly.environments.search.ready_made:SEARCH",
        "webshop": "agentfly.environments.webshop.ready_made:WEBSHOP",
    }
)
"""Where each is made."""


def find_ready_made(name: str) -> ReadyMade[Any]:
    """Return an entry of the catalogue; ConfigError for an unknown name."""
    module, _, attribute = look_up(name, ENVIRONMENTS, "environment").partition(":")
    ready_made: ReadyMade[Any] = getattr(import_module(module), attribute)
    return ready_made
