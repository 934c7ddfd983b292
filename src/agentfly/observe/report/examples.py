"""Chains to look at: the same tasks before and after."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentfly.types import Group, Message, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One task, and a chain of it from each time."""

    before: Trajectory
    after: Trajectory

    @property
    def question(self) -> str:
        """What the user asked last before the model spoke, or the task's id."""
        asked = [message.content for message in self.after.messages if message.role == "user"]
        return asked[-1] if asked else self.after.task.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing said in a chain."""

    role: Literal["system", "user", "assistant", "call", "tool"]
    text: str


def choose_examples(
    before: Sequence[Group], after: Sequence[Group], count: int
) -> tuple[Example, ...]:
    """Take the first chain of the first tasks: whoever picks the best ones shows nothing."""
    then = _first_chains(before)
    pairs = ((then.get(task), chain) for task, chain in _first_chains(after).items())
    examples = [Example(before=old, after=new) for old, new in pairs if old is not None]
    return tuple(examples[:count])


def _first_chains(groups: Sequence[Group]) -> Mapping[tuple[str, str], Trajectory]:
    first: dict[tuple[str, str], Trajectory] = {}
    for group in groups:
        if group.members:
            first.setdefault((group.task.source, group.task.id), group.members[0])
    return first


def conversation(chain: Trajectory) -> list[Line]:
    """List what was said since the opening messages, calls as calls.

    For example `assistant: I will multiply.`, `call: calculator({"expression": "6*7"})`,
    `tool: 42`, `assistant: It is 42.`
    """
    return [
        line
        for turn in chain.turns
        for message in (turn.message, *turn.replies)
        for line in _lines(message)
    ]


def _lines(message: Message) -> Iterator[Line]:
    if message.content:
        yield Line(role=message.role, text=message.content)
    for call in message.tool_calls:
        yield Line(role="call", text=f"{call.name}({call.arguments})")
