"""Checks of the arguments that users pass to `Agent` and `Agent.run`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentfly.errors import ConfigError
from agentfly.tools.methods import require_makeable
from agentfly.types import (
    EnvSpec,
    GroupReward,
    Message,
    Reward,
    Task,
    Tool,
    is_environment_class,
)

Tools = Sequence[Tool | Callable[..., Any]]


def require_tools(tools: Tools) -> Tools:
    """Refuse a single tool that is not in a list."""
    if not isinstance(tools, Sequence):
        raise ConfigError(f"tools is a list: write tools=[{_name(tools)}]")
    return tools


def require_reward(reward: Reward | None) -> Reward | None:
    """Refuse a plain function, and a group reward."""
    if reward is None or hasattr(reward, "score"):
        return reward
    if hasattr(reward, "score_group"):
        raise ConfigError(f"{_name(reward)} scores whole groups: pass it as group_reward=")
    raise ConfigError(f"{_name(reward)} is not a reward: decorate it with @reward")


def require_group_reward(reward: GroupReward | None) -> GroupReward | None:
    """Refuse a plain function, and a reward of single chains."""
    if reward is None or hasattr(reward, "score_group"):
        return reward
    if hasattr(reward, "score"):
        raise ConfigError(f"{_name(reward)} scores single chains: pass it as reward=")
    raise ConfigError(f"{_name(reward)} is not a group reward: decorate it with @group_reward")


def environment_spec(environment: Callable[..., Any] | EnvSpec | None) -> EnvSpec | None:
    """Return the spec of a class, of a function that makes an instance, or of a spec."""
    if environment is None or isinstance(environment, EnvSpec):
        return environment
    if not callable(environment):
        raise ConfigError(
            f"environment= takes a class, so that each chain gets an instance of its own, and got "
            f"an instance: {environment!r}. Pass {type(environment).__qualname__}, a "
            "functools.partial of it, a function that makes one, or an EnvSpec"
        )
    spec = EnvSpec(environment)
    require_makeable(spec)
    return spec


def method_source(environment: EnvSpec | None) -> tuple[EnvSpec, ...]:
    """Return the environment whose methods are the tools of an agent that names none."""
    kind = environment.instance_class if environment else None
    if environment is None or kind is None or hasattr(kind, "step"):
        return ()
    return (environment,)


def may_score(environment: EnvSpec) -> bool:
    """Return whether an environment may reward its steps; a plain class with methods does not."""
    kind = environment.instance_class
    return kind is None or hasattr(kind, "step") or is_environment_class(kind)


def require_count(name: str, count: object, *, at_least: int) -> None:
    """Refuse anything but a whole number of at least `at_least`."""
    if not isinstance(count, int) or count < at_least:
        raise ConfigError(f"{name} must be a whole number of at least {at_least}, got {count!r}")


def _name(value: object) -> str:
    return getattr(value, "__name__", repr(value))


Rows = str | Mapping[str, Any] | Task | Sequence[str | Mapping[str, Any] | Task | Message]
"""A question, one conversation's messages, a row, or a list of questions, rows or tasks."""


def to_tasks(rows: Rows) -> list[Task]:
    """Convert any accepted form of rows to tasks.

    >>> [task.fields["question"] for task in to_tasks(["What is 2+2?", {"question": "And 3+3?"}])]
    ['What is 2+2?', 'And 3+3?']
    """
    if isinstance(rows, (str, Mapping, Task)):
        return [_to_task(rows)]
    given: object = rows
    if not isinstance(given, Sequence) or not given:
        raise ConfigError(
            "expected a question, a list of messages, or a list of rows (dicts with `question` or "
            f"`messages`), got {rows!r}"
        )
    if all(_is_message(row) for row in rows):
        return [Task.from_row({"messages": [Message.from_dict(row).to_dict() for row in rows]})]
    return [_to_task(row) for row in rows]


def _is_message(row: object) -> bool:
    if isinstance(row, Message):
        return True
    is_row = isinstance(row, Mapping) and ("question" in row or "messages" in row)
    return isinstance(row, Mapping) and "role" in row and not is_row


def _to_task(row: object) -> Task:
    if isinstance(row, Task):
        return row
    if isinstance(row, str):
        return Task.from_row({"question": row})
    if isinstance(row, Mapping):
        return Task.from_row(row)
    raise ConfigError(f"a row is a question, a dict or a Task, got {type(row).__name__}: {row!r}")
