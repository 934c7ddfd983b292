"""Tasks: rows of a dataset, with ids that stay the same from run to run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentfly.errors import ConfigError
from agentfly.types.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One row of a dataset, to be attempted.

    >>> Task.from_row({"question": "What is 2+2?", "answer": "4"}).fields
    {'question': 'What is 2+2?', 'answer': '4'}
    """

    id: str
    """The row's own `id`, or a hash of its contents: never its position."""
    messages: tuple[Message, ...]
    """Opening messages; empty when an environment makes the first observation."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The whole row as it was given, for tools and rewards."""
    source: str = "default"
    """Name of the task source that it came from."""

    def __post_init__(self) -> None:
        if not self.id:
            raise ConfigError("a task needs a non-empty id")

    @classmethod
    def from_row(cls, row: Mapping[str, Any], *, source: str = "default") -> "Task":
        """Read a dict with `question` or `messages` and any other fields."""
        row_id = row.get("id")
        return cls(
            id=str(row_id) if row_id is not None else content_id(row),
            messages=_opening(row),
            fields=dict(row),
            source=source,
        )


def content_id(row: Mapping[str, Any]) -> str:
    """Hash a row's contents, independent of the order of its keys."""
    try:
        text = json.dumps(row, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"a row's fields must be JSON values, or the row needs an `id` of its own: {error}"
        ) from error
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _opening(row: Mapping[str, Any]) -> tuple[Message, ...]:
    if "messages" in row:
        messages = row["messages"]
        if isinstance(messages, str) or not isinstance(messages, Sequence):
            raise ConfigError(
                f"`messages` must be a list, got {type(messages).__name__}: {messages!r}"
            )
        return tuple(Message.from_dict(message) for message in messages)
    if "question" in row:
        question = row["question"]
        if not isinstance(question, str):
            raise ConfigError(
                f"`question` must be a string, got {type(question).__name__}: {question!r}"
            )
        return (Message(role="user", content=question),)
    return ()


def group_id(task_id: str, visit: int) -> str:
    """Return the id of a group: one visit (epoch or repeat) to one task."""
    return f"{task_id}/{visit}"


def chain_id(group: str, index: int) -> str:
    """Return the id of one chain of a group."""
    return f"{group}/{index}"


def chain_index(chain: str) -> int:
    """Return the index of a chain in its group.

    >>> chain_index(chain_id("sum/0", 3))
    3
    """
    return int(chain.rpartition("/")[2])
