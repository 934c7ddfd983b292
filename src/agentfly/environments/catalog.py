"""Environments by name: built-in ones, a user's own, and those of installed packages.

An environment is imported at its first use.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from agentfly.config import PluginKind, Settings, SettingsError
from agentfly.config.validation_errors import problems_of
from agentfly.environments.index import INDEX
from agentfly.environments.kit import EnvironmentDefinition, Kit, NoTasksError
from agentfly.errors import ConfigError, boundary
from agentfly.types import EnvSpec

ENVIRONMENTS = MappingProxyType({name: entry.path for name, entry in INDEX.items()})
"""Definitions of the built-in environments, as `module:name`."""


def _makes_environments(value: Any) -> bool:
    return callable(value) or isinstance(value, EnvSpec | EnvironmentDefinition)


_KIND: PluginKind[Any] = PluginKind(
    what="environment",
    group="agentfly.environments",
    builtin=ENVIRONMENTS,
    fits=_makes_environments,
    way_out="name a class, a function that makes an instance, or an EnvironmentDefinition",
)


def environment_names() -> list[str]:
    """Return all names, including those of installed packages."""
    return _KIND.names()


def find_environment(
    name: str, *, base: Path | None = None
) -> EnvironmentDefinition[Any] | EnvSpec:
    """Return the environment of a name; ConfigError for an unknown one.

    Args:
        name: One that `agentfly envs list` shows, or `module:name` of your own.
        base: Folder in which modules are searched first.

    Returns:
        A definition with tasks, or only the spec of an environment that sends the first message.
    """
    found = _KIND.find(name, base=base)
    return found if isinstance(found, EnvironmentDefinition | EnvSpec) else EnvSpec(found)


def find_definition(name: str, *, base: Path | None = None) -> EnvironmentDefinition[Any]:
    """Return an environment that has tasks, tools and reward; ConfigError for any other."""
    found = find_environment(name, base=base)
    if isinstance(found, EnvSpec):
        raise NoTasksError(
            f"the environment {name!r} brings no tasks of its own: name it in a [[source]] with "
            f"`tasks`, play it with `agentfly envs play {name} --tasks FILE`, or make it an "
            "EnvironmentDefinition"
        )
    return found


def load_environment(name: str, /, **options: Any) -> Kit:
    """Return the tasks, tools, reward and prompt of an environment.

    >>> [tool.spec.name for tool in load_environment("code", tasks="programs").tools]
    ['code_interpreter']

    Args:
        name: One that `agentfly envs list` shows, or `module:name` of your own.
        options: Those that `agentfly envs info NAME` lists.
    """
    return make_kit(find_definition(name), options)


def make_kit(
    definition: EnvironmentDefinition[Any], options: Mapping[str, Any], *, base: Path | None = None
) -> Kit:
    """Make the kit of an environment with these options.

    Relative paths are resolved against `base`, as those of tasks are. Validators can read it as
    `info.context["base"]`.
    """
    if missing := definition.requires():
        raise ConfigError(f"the environment {definition.name!r} can't be used here: {missing}")
    chosen = read_environment_options(definition, options, base=base)
    chosen = chosen.model_copy(update=_from_base(chosen, base or Path()))
    with boundary(ConfigError, f"making the environment {definition.name!r}"):
        return definition.make(chosen)


def read_environment_options(
    definition: EnvironmentDefinition[Any], options: Mapping[str, Any], *, base: Path | None = None
) -> Settings:
    """Check the options of an environment; SettingsError for those that it does not take."""
    try:
        chosen: Settings = definition.options.model_validate(options, context={"base": base})
    except ValidationError as error:
        found = problems_of(error, definition.options, "options", suggest_settings=False)
        raise SettingsError(found, None) from error
    return chosen


def _from_base(options: Settings, base: Path) -> dict[str, Path]:
    paths = {name: value for name, value in options if isinstance(value, Path)}
    try:
        return {name: base / path.expanduser() for name, path in paths.items()}
    except RuntimeError as error:
        found = ", ".join(f"{name}={path}" for name, path in paths.items())
        raise ConfigError(f"{error} Write the whole path in {found}") from None
