"""Tools named on the command line: ready-made ones, or `module:name` of your own."""

import importlib
import sys
from collections.abc import Sequence

from agentfly.errors import ConfigError, boundary
from agentfly.runtime.names import suggestion
from agentfly.tools import answer, calculator, finish
from agentfly.types import Tool

READY_MADE: dict[str, Tool] = {"answer": answer, "calculator": calculator, "finish": finish}


def find_tools(names: Sequence[str]) -> list[Tool]:
    """Look up each name."""
    return [_find(name) for name in names]


def _find(name: str) -> Tool:
    if name in READY_MADE:
        return READY_MADE[name]
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(
            f"unknown tool {name!r}. {suggestion(name, READY_MADE)} "
            "A tool of your own is named by module:name, for example my_tools:search"
        )
    sys.path.insert(0, "")
    with boundary(ConfigError, f"importing {module_name}"):
        found: Tool = getattr(importlib.import_module(module_name), attribute)
    return found
