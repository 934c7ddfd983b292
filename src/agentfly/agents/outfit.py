"""What a source of tasks is fitted out with: its own choices, else those of its environment."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agentfly.agents.named import (
    find_environment,
    find_group_reward,
    find_kind,
    find_reward,
    find_tool,
)
from agentfly.config import Settings, SettingsError, SourceSettings
from agentfly.config.mistake import problems_of
from agentfly.environments import Kit, find_ready_made
from agentfly.errors import ConfigError
from agentfly.tasks import Rows, find_rows
from agentfly.types import AgentKind, EnvSpec, GroupReward, Reward, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """All that an agent and its tasks need, but the model."""

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
    """What the ready-made environment brought, where there is one."""


def fit_out(source: SourceSettings, *, base: Path | None = None) -> Outfit:
    """Find everything that a source names; what it leaves out, its environment brings.

    >>> outfit = fit_out(SourceSettings(environment="code"))
    >>> [tool.spec.name for tool in outfit.tools]
    ['code_interpreter']
    """
    kit = make_kit(source, base=base)
    brought = kit or Kit(tasks=tuple, eval_tasks=tuple, tools=())
    reward, group_reward = source.reward, source.group_reward
    return Outfit(
        tasks=_rows(source.tasks, base) or brought.tasks,
        # The environment's own held-out tasks say nothing of a run that trains on others.
        eval_tasks=_rows(source.eval_tasks, base) or (() if source.tasks else brought.eval_tasks),
        kind=find_kind(source.kind, base=base),
        tools=tuple(find_tool(name, base=base) for name in source.tools) or brought.tools,
        reward=find_reward(reward, base=base) if reward else brought.reward,
        group_reward=find_group_reward(group_reward, base=base) if group_reward else None,
        environment=brought.environment if kit else _own_environment(source, base),
        system_prompt=source.system_prompt or brought.system_prompt,
        max_turns=source.max_turns or brought.max_turns,
        kit=kit,
    )


def make_kit(source: SourceSettings, *, base: Path | None = None) -> Kit | None:
    """Make the ready-made environment of a source; None if it names none.

    Paths among its options are looked for in `base`, as those of tasks are.
    """
    if source.environment is None or ":" in source.environment:
        if source.options:
            raise ConfigError("options are for a ready-made environment, and none is named")
        return None
    ready_made = find_ready_made(source.environment)
    if missing := ready_made.requires():
        raise ConfigError(f"the environment {ready_made.name!r} can't be used here: {missing}")
    try:
        options = ready_made.options.model_validate(source.options)
        options = options.model_copy(update=_from_base(options, base or Path()))
    except ValidationError as error:
        raise SettingsError(problems_of(error, ready_made.options, "options"), None) from error
    return ready_made.make(options)


def _from_base(options: Settings, base: Path) -> dict[str, Path]:
    return {name: base / value.expanduser() for name, value in options if isinstance(value, Path)}


def _rows(name: str | None, base: Path | None) -> Rows | None:
    return find_rows(name, base=base) if name else None


def _own_environment(source: SourceSettings, base: Path | None) -> EnvSpec | None:
    return find_environment(source.environment, base=base) if source.environment else None
