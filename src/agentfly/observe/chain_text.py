"""A chain as text for people: its question, messages and calls, harmless to show."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agentfly.types import Message, Trajectory
from agentfly.types.short_text import printable

MAX_CHARACTERS = 4000
"""Maximum length of a shown message: a page that a tool fetched can be a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message or call of a chain."""

    role: Literal["system", "user", "assistant", "call", "tool"]
    text: str


def conversation(chain: Trajectory) -> list[Line]:
    """Return the messages after the opening ones, with calls as lines of their own.

    For example `assistant: I will multiply.`, `call: calculator({"expression": "6*7"})`,
    `tool: 42`, `assistant: It is 42.`
    """
    return [
        line
        for turn in chain.turns
        for message in (turn.message, *turn.replies)
        for line in message_lines(message)
    ]


def message_lines(message: Message) -> Iterator[Line]:
    """Yield a message's content, and each of its calls."""
    if message.content:
        yield Line(role=message.role, text=message.content)
    for call in message.tool_calls:
        yield Line(role="call", text=f"{call.name}({call.arguments})")


def question(chain: Trajectory) -> str:
    """Return the last user message before the model's first turn, or the task's id."""
    asked = [message.content for message in chain.messages if message.role == "user"]
    return asked[-1] if asked else chain.task.id


def reward_text(chain: Trajectory) -> str:
    """Return `reward 0.50`, or `unscored`."""
    return "unscored" if chain.reward is None else f"reward {chain.reward:.2f}"


def readable(text: str, limit: int | None = MAX_CHARACTERS) -> str:
    r"""Return a text of any number of lines without control characters, cut to a length.

    >>> readable("red: \x1b[31m\nnext line"), readable("abcdef", limit=4)
    ('red: �[31m\nnext line', 'abcd… (2 more characters)')
    """
    rest = 0 if limit is None else len(text) - limit
    shown = "\n".join(printable(line) for line in text[:limit].split("\n"))
    return f"{shown}… ({rest:,} more characters)" if rest > 0 else shown
