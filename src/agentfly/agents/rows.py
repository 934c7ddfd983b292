"""What `Agent.run` accepts as its tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentfly.errors import ConfigError
from agentfly.types import Message, Task

Rows = str | Mapping[str, Any] | Task | Sequence[str | Mapping[str, Any] | Task | Message]
"""A question, one conversation's messages, a row, or a list of questions, rows or tasks."""


def to_tasks(rows: Rows) -> list[Task]:
    """Read whatever a user would naturally pass.

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
