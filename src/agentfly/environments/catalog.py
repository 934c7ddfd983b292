"""Environments by name: those that come along, a user's own, and those of installed packages.

One is imported when it is first asked for.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from agentfly.config import PluginKind, Settings, SettingsError
from agentfly.config.mistake import problems_of
from agentfly.environments.kit import Kit, ReadyMade
from agentfly.errors import ConfigError, boundary
from agentfly.types import EnvSpec
from agentfly.types.environment import is_environment_class

ENVIRONMENTS = MappingProxyType(
    {
        "alfworld": "agentfly.environments.alfworld.ready_made:ALFWORLD",
        "code": "agentfly.environments.code.ready_made:CODE",
        "scienceworld": "agentfly.environments.scienceworld.ready_made:SCIENCEWORLD",
        "search": "agentfly.environments.search.ready_made:SEARCH",
        "webshop": "agentfly.environments.webshop.ready_made:WEBSHOP",
    }
)
"""Where each of those that come along is made."""


def _makes_environments(value: Any) -> bool:
    if isinstance(value, type):
        return is_environment_class(value)
    return callable(value) or isinstance(value, EnvSpec | ReadyMade)


_KIND: PluginKind[Any] = PluginKind(
    what="environment",
    group="agentfly.environments",
    builtin=ENVIRONMENTS,
    fits=_makes_environments,
    way_out="name a ReadyMade, a class with `reset`, `step` and `close`, or a function that makes "
    "an instance",
)


def environment_names() -> list[str]:
    """List all names, those that installed packages bring included."""
    return _KIND.names()


def find_environment(name: str, *, base: Path | None = None) -> ReadyMade[Any] | EnvSpec:
    """Return what a name stands for; ConfigError for an unknown one.

    Args:
        name: One that `agentfly envs list` shows, or `module:name` of your own.
        base: The folder in which modules are looked for first.

    Returns:
        A whole source of tasks, or only an environment that speaks first.
    """
    found = _KIND.find(name, base=base)
    return found if isinstance(found, ReadyMade | EnvSpec) else EnvSpec(found)


def find_ready_made(name: str, *, base: Path | None = None) -> ReadyMade[Any]:
    """Return an environment that brings tasks, tools and reward; ConfigError for any other."""
    found = find_environment(name, base=base)
    if isinstance(found, EnvSpec):
        raise ConfigError(
            f"the environment {name!r} brings no tasks of its own: name it in a [[source]] with "
            "`tasks`, or make it a ReadyMade"
        )
    return found


def load_environment(name: str, /, **options: Any) -> Kit:
    """Return the tasks, tools, reward and prompt of an environment.

    >>> [tool.spec.name for tool in load_environment("code", tasks="programs").tools]
    ['code_interpreter']

    Args:
        name: One that `agentfly envs list` shows, or `module:name` of your own.
        options: What `agentfly envs info NAME` lists.
    """
    return make_kit(find_ready_made(name), options)


def make_kit(
    ready_made: ReadyMade[Any], options: Mapping[str, Any], *, base: Path | None = None
) -> Kit:
    """Make an environment with a choice of its options.

    Paths among them are looked for in `base`, as those of tasks are.
    """
    if missing := ready_made.requires():
        raise ConfigError(f"the environment {ready_made.name!r} can't be used here: {missing}")
    try:
        chosen = ready_made.options.model_validate(options)
    except ValidationError as error:
        raise SettingsError(problems_of(error, ready_made.options, "options"), None) from error
    chosen = chosen.model_copy(update=_from_base(chosen, base or Path()))
    with boundary(ConfigError, f"making the environment {ready_made.name!r}"):
        return ready_made.make(chosen)


def _from_base(options: Settings, base: Path) -> dict[str, Path]:
    return {name: base / value.expanduser() for name, value in options if isinstance(value, Path)}
