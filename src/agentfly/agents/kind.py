"""Kinds of agent: how the prompt is made and how the output is read.

| kind | the model writes | it is shown results as |
|---|---|---|
| `ToolCalling` | calls in its template's own format | tool messages |
| `ReAct` | `Thought:`, `Action:`, `Action Input:`, at the end `Final Answer:` | `Observation: …` |
| `CodeBlocks` | a fenced block of code | `Output: …` |
| `Tags` | `<search>…</search>`, at the end `<answer>…</answer>` | `<information>…</information>` |

A kind of your own inherits from one of these, or fits `agentfly.types.AgentKind`:

    class Polite(ToolCalling):
        def open(self, task, tools, observation):
            opening = super().open(task, tools, observation)
            return [*opening, Message(role="user", content="Please be kind.")]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentfly.chat.formats import CallFormat, code_format, get_format, tag_format
from agentfly.errors import ConfigError
from agentfly.types import Message, Task, ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedExample:
    """One solved task, shown before every conversation.

    For example a question, a call of the calculator, its result, and the answer.
    """

    messages: tuple[Message, ...]
    task_id: str | None = None
    """Task that it solves, which is attempted without it."""

    def before(self, task: Task, messages: Sequence[Message]) -> list[Message]:
        """Put the example between a task's system message, if there is one, and the rest."""
        if task.id == self.task_id:
            return list(messages)
        own = 1 if messages and messages[0].role == "system" else 0
        return [*messages[:own], *self.messages, *messages[own:]]


class ToolCalling:
    """Kind whose tools and calls are in the template's own format."""

    def __init__(
        self, *, system_prompt: str | None = None, example: WorkedExample | None = None
    ) -> None:
        self.system_prompt = system_prompt
        self.example = example

    def format(self, tools: Sequence[ToolSpec]) -> CallFormat | None:
        """Return the format to read; None means the template's own."""
        del tools
        return None

    def open(
        self, task: Task, tools: Sequence[ToolSpec], observation: str | None
    ) -> Sequence[Message]:
        """Return system prompt, the task's messages, and the environment's first observation."""
        del tools
        messages = list(task.messages)
        if not messages and observation is None:
            raise ConfigError(
                f"row {task.id!r} has neither `question` nor `messages`, and no environment "
                f"makes a first observation. It has: {', '.join(task.fields) or 'nothing'}"
            )
        if observation is not None:
            messages.append(Message(role="user", content=observation))
        if self.example is not None:
            messages = self.example.before(task, messages)
        return with_system_prompt(messages, self.system_prompt)

    def read(self, message: Message) -> Message:
        """Return the message as the format read it."""
        return message

    def reply(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Sequence[Message]:
        """Answer each call with a tool message."""
        return [
            Message(
                role="tool",
                content=result.observation,
                tool_call_id=call.id,
                name=call.name,
                images=result.images,
            )
            for call, result in zip(calls, results, strict=True)
        ]


class _InText(ToolCalling):
    """Kinds whose system prompt describes the format, and whose results are user messages."""

    observation: ClassVar[str]

    def reply(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Sequence[Message]:
        """Answer all calls of the turn in one user message."""
        del calls
        shown = [self.observation.format(result.observation) for result in results]
        images = tuple(image for result in results for image in result.images)
        return [Message(role="user", content="\n".join(shown), images=images)]


class ReAct(_InText):
    """Thought, action, observation, in plain text (arXiv:2210.03629)."""

    observation = "Observation: {}"

    def format(self, tools: Sequence[ToolSpec]) -> CallFormat:
        """Read `Thought: / Action: / Action Input:`."""
        del tools
        return get_format("react")


class CodeBlocks(_InText):
    """Fenced blocks of code, which one tool runs."""

    observation = "Output:\n{}"

    def format(self, tools: Sequence[ToolSpec]) -> CallFormat:
        """Read fenced blocks as calls of the agent's one tool."""
        if len(tools) != 1:
            raise ConfigError(
                f"an agent of kind 'code' has one tool, which runs its code; got {_names(tools)}"
            )
        return code_format(tool=tools[0].name, parameter=_only_parameter(tools[0]))


class Tags(_InText):
    """One tag per tool, for example `<search>…</search>` (arXiv:2503.09516)."""

    observation = "<information>{}</information>"

    def format(self, tools: Sequence[ToolSpec]) -> CallFormat:
        """Read one tag per tool, and `<answer>`."""
        return tag_format({tool.name: _only_parameter(tool) for tool in tools})


def _only_parameter(tool: ToolSpec) -> str:
    """Return the parameter that receives the text."""
    names = list(tool.parameters.get("required", ()))
    if len(names) != 1:
        raise ConfigError(
            f"tool {tool.name!r} must have exactly one required parameter to be called by its text "
            f"alone, got {', '.join(names) or 'none'}: use kind='tools' or 'react'"
        )
    return str(names[0])


def _names(tools: Sequence[ToolSpec]) -> str:
    return ", ".join(tool.name for tool in tools) or "none"


KINDS: dict[str, type[ToolCalling]] = {
    "tools": ToolCalling,
    "react": ReAct,
    "code": CodeBlocks,
    "tags": Tags,
}


def with_system_prompt(messages: Sequence[Message], text: str | None) -> list[Message]:
    """Put the text first; keep a system message of the task itself after it."""
    if not text:
        return list(messages)
    if messages and messages[0].role == "system":
        own, rest = messages[0].content, messages[1:]
        return [Message(role="system", content=f"{text}\n\n{own}"), *rest]
    return [Message(role="system", content=text), *messages]
