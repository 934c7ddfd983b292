"""Parts of a source of tasks: its own choices, else those of its environment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentfly.agents.registry import find_group_reward, find_kind, find_reward, find_tools
from agentfly.config import Problem, SourceSettings
from agentfly.config.validation_errors import Problems, refuse_if_any
from agentfly.environments import Kit, find_environment, make_kit
from agentfly.errors import ConfigError
from agentfly.tasks import Rows, find_rows
from agentfly.tools.methods import require_makeable
from agentfly.types import AgentKind, EnvSpec, GroupReward, Reward, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts:
    """Everything that an agent and its tasks need, except the model."""

    tasks: Rows
    eval_tasks: Rows
    kind: AgentKind
    tools: tuple[Tool, ...]
    reward: Reward | None
    group_reward: GroupReward | None
    environment: EnvSpec | None
    system_prompt: str | None
    max_turns: int | None
    kit: Kit | None = None
    """Kit of the built-in environment, if there is one."""


FindRows = Callable[[str, Path | None], Rows]
"""Returns the rows of a name, searched in a folder; they need not be read."""


def resolve_source(
    source: SourceSettings,
    *,
    base: Path | None = None,
    find: FindRows = lambda name, base: find_rows(name, base=base),
) -> SourceParts:
    """Find everything that a source names; its environment supplies what it leaves out.

    Raise one SettingsError that lists all problems.

    >>> parts = resolve_source(SourceSettings(environment="code"))
    >>> [tool.spec.name for tool in parts.tools]
    ['code_interpreter']

    Args:
        source: A table `[[source]]` of some settings.
        base: Folder in which files and modules are searched first.
        find: Finds the named tasks; by default they are not read.
    """
    problems = Problems()
    kind = problems.tried("kind", find_kind, source.kind, base=base)
    found_tools = [
        problems.tried(f"tools.{place}", find_tools, name, base=base)
        for place, name in enumerate(source.tools)
    ]
    reward = source.reward and problems.tried("reward", find_reward, source.reward, base=base)
    group_reward = source.group_reward and problems.tried(
        "group_reward", find_group_reward, source.group_reward, base=base
    )
    environment = problems.tried("environment", find_source_environment, source, base)
    tasks = source.tasks and problems.tried("tasks", find, source.tasks, base)
    eval_tasks = source.eval_tasks and problems.tried("eval_tasks", find, source.eval_tasks, base)
    kit = environment if isinstance(environment, Kit) else None
    if isinstance(environment, EnvSpec) and source.tasks is None:
        problems.add(Problem(key="tasks", text=SourceSettings.missing_tasks()))
    refuse_if_any(problems.found, None)
    assert kind is not None, "no problem was found"
    defaults = kit or Kit(tasks=tuple, eval_tasks=tuple, tools=())
    return SourceParts(
        tasks=tasks or defaults.tasks,
        # The environment's held-out tasks do not evaluate a run that trains on other tasks.
        eval_tasks=eval_tasks or (() if source.tasks else defaults.eval_tasks),
        kind=kind,
        tools=tuple(tool for tools in found_tools for tool in tools or ()) or defaults.tools,
        reward=reward or defaults.reward,
        group_reward=group_reward or None,
        environment=environment if isinstance(environment, EnvSpec) else defaults.environment,
        system_prompt=source.system_prompt or defaults.system_prompt,
        max_turns=source.max_turns or defaults.max_turns,
        kit=kit,
    )


def find_source_environment(
    source: SourceSettings, base: Path | None = None
) -> Kit | EnvSpec | None:
    """Return the environment of a source: a built-in one, a user's own, or none."""
    found = find_environment(source.environment, base=base) if source.environment else None
    if found is not None and not isinstance(found, EnvSpec):
        return make_kit(found, source.options, base=base)
    if source.options:
        raise ConfigError(
            "options are for a built-in environment, and none is named. A class of your own gets "
            "its arguments by functools.partial: name the partial, as in 'mine:SmallShop'"
        )
    if found is not None:
        require_makeable(found)
    return found
