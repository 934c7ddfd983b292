"""The right answer, as a task gives it."""

from agentfly.errors import RewardError
from agentfly.rewards.injection import missing_field
from agentfly.types import Task


def gold_answers(task: Task, field: str) -> list[str]:
    """Return the task's right answers as texts: one value, or a list of which any is right.

    >>> gold_answers(Task(id="a", messages=(), fields={"answer": 42}), "answer")
    ['42']
    """
    golds = listed_answers(task, field)
    if not golds:
        raise RewardError(f"task {task.id!r} has no right answer: its field {field!r} is empty")
    return golds


def listed_answers(task: Task, field: str) -> list[str]:
    """Return the right answers as texts, for rewards to which having none means something."""
    if field not in task.fields:
        raise RewardError(missing_field(field, task))
    value = task.fields[field]
    return [_text(v, field) for v in (value if isinstance(value, list | tuple) else [value])]


def _text(value: object, field: str) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    raise RewardError(
        f"the field {field!r} must hold a text, a number or a list of them, "
        f"got {type(value).__name__}: {value!r}"
    )
