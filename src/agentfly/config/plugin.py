"""Tables whose keys depend on a name: what `grpo` takes is known to `grpo` alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from agentfly.config.mistake import problems_of
from agentfly.config.problem import Problem
from agentfly.config.settings import RunSettings, Settings
from agentfly.errors import ConfigError
from agentfly.runtime.names import suggestion

Plugins = Mapping[str, Mapping[str, type[Settings]]]
"""For a table, the names that are known and what each one takes: {"algorithm": {"grpo": …}}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A run's tables with the defaults of each plug-in filled in."""

    data: dict[str, Any]
    problems: list[Problem] = field(default_factory=list)


def complete(data: Mapping[str, Any], plugins: Plugins) -> Completed:
    """Check each plug-in's own options, and fill in their defaults.

    A name with a colon is an import path, and whoever imports it checks its options.
    """
    completed, problems = dict(data), []
    for table, known in plugins.items():
        given = data.get(table, {})
        if not isinstance(given, Mapping):
            continue  # told of as a table that is none
        name = given.get("name", RunSettings.model_fields[table].default.name)
        if not isinstance(name, str) or ":" in name:
            continue
        if name not in known:
            said = f"unknown {table} {name!r}. {suggestion(name, known)} Your own is `module:name`"
            problems.append(Problem(key=f"{table}.name", text=said))
            continue
        try:
            takes = known[name]
        except ConfigError as error:
            problems.append(Problem(key=f"{table}.name", text=str(error)))
            continue
        try:
            options = takes.model_validate({k: v for k, v in given.items() if k != "name"})
        except ValidationError as error:
            problems += problems_of(error, takes, table)
        else:
            # TOML has no word for None, and the plug-in has it as a default.
            values = options.model_dump(mode="json", exclude_none=True)
            completed[table] = {"name": name, **values}
    return Completed(data=completed, problems=problems)
