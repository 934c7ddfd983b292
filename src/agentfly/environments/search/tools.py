"""What a model may do: search, retrieve, open a page."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from agentfly.environments.search.environment import SearchEnvironment
from agentfly.tools import tool
from agentfly.types import EnvSpec, Tool

ToolName = Literal["search", "retrieve", "open_page"]


def search(query: str, env: SearchEnvironment) -> str:  # noqa: D417 - a model is not told of `env`
    """Search for passages.

    Args:
        query: A few words, such as a name.
    """
    return env.search(query)


def retrieve(query: str, env: SearchEnvironment, k: int = 3) -> str:  # noqa: D417 - a model is not told of `env`
    """Search for passages and read them in whole.

    Args:
        query: A few words, such as a name.
        k: How many passages.
    """
    return env.retrieve(query, k)


def open_page(page: str, env: SearchEnvironment, part: int = 1) -> str:  # noqa: D417 - a model is not told of `env`
    """Read a page.

    Args:
        page: An id in [brackets], a name or an address that a search has shown.
        part: Which part of a long page.
    """
    return env.open_page(page, part)


_FUNCTIONS: Mapping[ToolName, Callable[..., Any]] = MappingProxyType(
    {"search": search, "retrieve": retrieve, "open_page": open_page}
)


def search_tools(spec: EnvSpec, names: tuple[ToolName, ...] = ("search",)) -> tuple[Tool, ...]:
    """Make tools that use an environment of this spec."""
    return tuple(tool(_FUNCTIONS[name], env=spec) for name in names)
