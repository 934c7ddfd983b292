"""Whether right answers can show that tasks are sound, and what is missing where they can't."""

from collections.abc import Callable, Mapping, Sequence

from agentfly.agents.source_parts import SourceParts
from agentfly.types import EnvSpec, Task

_NEEDS_A_PLAYER = (
    "can't be validated by answers: its reward is on the state of its "
    "environment, which calls change, and its tasks have no field {answer!r}. Nothing is known to "
    "be wrong with them. To check them, play a right path: write a player, run it with "
    "`Agent(PlayerModel(...), environment=..., reward=...)` and look for reward 1, as the page "
    "Environments of the documentation shows; or give an EnvironmentDefinition a `gold` player, "
    "which this command plays"
)

_NEEDS_AN_ENVIRONMENT = (
    "can't be validated: its reward {reward!r} takes an environment as {parameter!r}, and none is "
    "named. Nothing is known to be wrong with its tasks. Name it with --environment {path}, or in "
    "the settings of a run with `environment` or `tools`"
)


def missing_requirement(parts: SourceParts, tasks: Sequence[Task], answer: str) -> str | None:
    """Return why the answers of tasks can't be tried, whatever they are; None if they can.

    Args:
        parts: Parts of the tasks' source.
        tasks: Its tasks.
        answer: The field with the right answer.
    """
    if not tasks or has_solver(parts):
        return None
    answered = any(_has_answer(task, answer) for task in tasks)
    if not _leased(parts):
        return _missing_environment(parts, tasks, answered=answered)
    if answered or any(_missing_fields(task, parts) for task in tasks):
        return None
    return _NEEDS_A_PLAYER.format(answer=answer)


def missing_field(task: Task, parts: SourceParts, answer: str) -> str | None:
    """Return which field a task lacks, for the right answer or for the reward; None if none."""
    there = f"it has {', '.join(task.fields)}"
    if not has_solver(parts) and not _has_answer(task, answer):
        return (
            f"no field {answer!r} with its right answer: {there}. Add it, or name another field "
            "with --answer"
        )
    missing = _missing_fields(task, parts)
    if missing and parts.reward is not None:
        return (
            f"no field {missing[0]!r}, which the reward {parts.reward.name!r} reads: {there}. Add "
            "it, or give the parameter a default"
        )
    return None


def has_solver(parts: SourceParts) -> bool:
    """Return whether the environment brings a player that solves its tasks."""
    return parts.kit is not None and (parts.kit.gold or parts.kit.expert) is not None


def _has_answer(task: Task, answer: str) -> bool:
    return task.fields.get(answer) not in (None, [])


def _missing_environment(
    parts: SourceParts, tasks: Sequence[Task], *, answered: bool
) -> str | None:
    """Return the message for a reward whose environment is not named; None if there is none."""
    classes: Callable[[Task], Mapping[str, type | None]] | None = getattr(
        parts.reward, "environment_classes", None
    )
    if parts.reward is None or classes is None:
        return None
    for name, kind in classes(tasks[0]).items():
        # With an answer, the reward may read a new instance of its own environment.
        without = all(name in _missing_fields(task, parts) for task in tasks)
        if without or not answered:
            path = f"{kind.__module__}:{kind.__qualname__}" if kind else "module:Class"
            return _NEEDS_AN_ENVIRONMENT.format(reward=parts.reward.name, parameter=name, path=path)
    return None


def _leased(parts: SourceParts) -> list[EnvSpec]:
    own = [parts.environment] if parts.environment else []
    return [*own, *(spec for tool in parts.tools for spec in tool.environments)]


def _missing_fields(task: Task, parts: SourceParts) -> Sequence[str]:
    """Return the fields that the reward reads and the task lacks."""
    reads: Callable[..., Sequence[str]] | None = getattr(parts.reward, "missing_fields", None)
    return reads(task, _leased(parts)) if reads else ()
