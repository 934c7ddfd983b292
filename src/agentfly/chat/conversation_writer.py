r"""Renders whole conversations with a chat template, and adapts messages that it can't render.

`TemplateRenderer` uses it for a chain's first prompt and, with `on_rewrite="cut"`, for new ones.

Content that a template can't render is adapted:

- **No tool messages** (the template raises, or omits them): a user message that begins with
  `Result of the tool NAME:`, the result on the next line. Consecutive results and user messages are
  joined by an empty line into one user message, because most such templates require user and
  assistant to alternate.
- **No tool calls**: a call is written into the assistant's content in the call format.
- **No tools**: they are described at the end of the system prompt, one JSON schema per line, with
  an example call in the call format.
- **No system message**: it is put in front of the first user message, with an empty line between.

The same is done where a template could do it, but the call format is one that no template has (such
as ReAct): the format's own instructions then replace the template's description of the tools.

Many templates also change what they rendered before, once more messages follow: they drop the
reasoning of earlier turns when the next user message comes. `RewriteDetector` finds these.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from agentfly.chat.capabilities import Capabilities, text_view
from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.formats import CallFormat
from agentfly.chat.formats.marks import shared_length
from agentfly.chat.safe_encode import Piece
from agentfly.chat.taint import Swap, Taint
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationWriter:
    """Renders whole conversations with one template."""

    template: ChatTemplate
    capabilities: Capabilities
    taint: Taint
    call_format: CallFormat

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """Render a conversation as text, in the first variant that the template accepts."""
        return self._accepted(messages, tools, add_generation_prompt=add_generation_prompt)[1]

    def adapted(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
        """Return a conversation in the first variant that the template accepts."""
        return self._accepted(messages, tools, add_generation_prompt=False)[0]

    def _accepted(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool,
    ) -> tuple[list[Message], str]:
        """Return the first variant that the template accepts, and its text."""
        refusals: list[ConfigError] = []
        for adapted in self.variants(messages, tools):
            try:
                text = self._render(adapted, tools, add_generation_prompt=add_generation_prompt)
            except ConfigError as error:
                refusals.append(error)
            else:
                return adapted, text
        raise refusals[0]

    def pieces(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Piece]:
        """Render a conversation and the next generation prompt, split by who wrote each part."""

        def render(swap: Swap) -> str:
            return self.text(list(map(swap.message, messages)), list(map(swap.tool, tools)))

        return self.taint.pieces(render)

    def variants(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Iterator[list[Message]]:
        """Yield the conversation as this template should accept it, then with alternating roles."""
        if tools and not self.capabilities.tools:
            messages = add_tool_instructions(messages, tools, self.call_format)
        adapted = adapt(messages, self.capabilities, self.call_format)
        plain = [replace(m, content=text_view(m), images=()) for m in adapted]
        yield plain
        yield results_as_user(plain)

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        return self.template.render(
            [self.capabilities.write(message) for message in messages],
            [tool.to_openai() for tool in tools] if self.capabilities.tools else [],
            add_generation_prompt=add_generation_prompt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDetector:
    """Detects templates that change earlier turns once replies follow (for `on_rewrite="cut"`).

    Two renderings are compared: the conversation up to the turn, and the same conversation with its
    replies. A long conversation is not rendered whole for that. Templates look at the kind of turn
    (with reasoning, with calls, answered by a user) and at the place of the last question, so a
    conversation reduced to the last exchange of each kind is rewritten when the whole is.
    """

    writer: ConversationWriter
    pattern: re.Pattern[str] | None
    """Pattern of a special token."""

    def rewritten(
        self,
        history: Sequence[Message],
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
        sampled: str | None = None,
    ) -> bool:
        """Compare the history before and after the replies.

        `history` ends with the turn that is answered, `sampled` is its text as sampled. A turn that
        is merely written otherwise than it was sampled (other spaces in its JSON) is not rewritten:
        the template must word it one way as the last message, and another before the replies.
        """
        history = representative(history)
        before = self.writer.text(history[:-1], tools)
        after = self.writer.text([*history, *replies], tools)
        if not after.startswith(before):
            return True
        said = after[len(before) :]
        if sampled is not None and said.startswith(sampled):
            return False
        try:
            last = self.writer.text(history, tools, add_generation_prompt=False)
        except ConfigError:
            return False
        return last.startswith(before) and self._lost(last[len(before) :], said)

    def _lost(self, last: str, said: str) -> bool:
        """Return whether `said` lacks anything except the closing of a turn."""
        shared = shared_length(last, said)
        pattern = self.pattern
        if pattern is None:
            return bool(last[shared:].strip())
        straddling = (m.start() for m in pattern.finditer(last) if m.start() < shared < m.end())
        return bool(pattern.sub("", last[next(straddling, shared) :]).strip())


def representative(history: Sequence[Message]) -> list[Message]:
    """Cut a conversation down to its opening, the last exchange of each kind, and its turn.

    An exchange is an assistant's message with the replies to it. Earlier ones of the same kind are
    rendered as the last one is, or were rendered so when a later question came.
    """
    starts = [i for i, message in enumerate(history) if message.role == "assistant"]
    last = {
        _kind(history[start], history[end - 1]): (start, end) for start, end in pairwise(starts)
    }
    kept = (message for start, end in sorted(last.values()) for message in history[start:end])
    return [*history[: starts[0]], *kept, *history[starts[-1] :]]


def _kind(turn: Message, reply: Message) -> object:
    """Return what templates look at, as little as will do: it is called for every turn."""
    return turn.reasoning is None, not turn.content, len(turn.tool_calls) > 1, reply.role


# --- Adapting messages to a template ---------------------------------------------------


def adapt(
    messages: Iterable[Message], capabilities: Capabilities, call_format: CallFormat
) -> list[Message]:
    """Adapt messages so that a template with these capabilities renders them all."""
    adapted = list(messages)
    if not capabilities.calls:
        adapted = [_calls_in_content(message, call_format) for message in adapted]
    if not capabilities.tool_messages and any(message.role == "tool" for message in adapted):
        adapted = results_as_user(adapted)
    return adapted if capabilities.system else _system_in_user(adapted)


def add_tool_instructions(
    messages: Sequence[Message], tools: Sequence[ToolSpec], call_format: CallFormat
) -> list[Message]:
    """Describe tools at the end of the system prompt, which is made if there is none."""
    description = call_format.instructions(tools) or _description(tools, call_format)
    if messages and messages[0].role == "system":
        first = replace(messages[0], content=f"{messages[0].content}\n\n{description}")
        return [first, *messages[1:]]
    return [Message(role="system", content=description), *messages]


def results_as_user(messages: Sequence[Message]) -> list[Message]:
    """Turn tool messages into user messages, and join consecutive ones."""
    converted = (_result_as_user(message) for message in messages)
    return list(_joined(converted))


def as_one_user(messages: Sequence[Message]) -> list[Message]:
    """Join all messages into one user message."""
    content = "\n\n".join(text_view(_result_as_user(message)) for message in messages)
    return [Message(role="user", content=content)]


def _description(tools: Sequence[ToolSpec], call_format: CallFormat) -> str:
    schemas = [json.dumps(tool.to_openai()["function"], ensure_ascii=False) for tool in tools]
    listed = ["You can use these tools, each described by a JSON schema:", *schemas]
    try:
        example = call_format.write((ToolCall(id="call_0", name=tools[0].name, arguments="{}"),))
    except ConfigError:  # a user's own format that only reads
        return "\n".join(listed)
    how = "To use one, write a call with its arguments filled in, like this:"
    return "\n".join([*listed, how, example])


def _result_as_user(message: Message) -> Message:
    if message.role != "tool":
        return message
    heading = f"Result of the tool {message.name}:" if message.name else "Result of the tool:"
    return Message(role="user", content=f"{heading}\n{text_view(message)}")


def _joined(messages: Iterable[Message]) -> Iterator[Message]:
    for role, run in groupby(messages, key=lambda message: message.role):
        together = list(run)
        yield from as_one_user(together) if role == "user" and len(together) > 1 else together


def _calls_in_content(message: Message, call_format: CallFormat) -> Message:
    if not message.tool_calls:
        return message
    content = call_format.write(message.tool_calls, message.content)
    return replace(message, content=content, tool_calls=())


def _system_in_user(messages: Sequence[Message]) -> list[Message]:
    system = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    if not system:
        return others
    place = next((i for i, message in enumerate(others) if message.role == "user"), None)
    if place is None:
        return [Message(role="user", content="\n\n".join(system)), *others]
    user = replace(others[place], content="\n\n".join([*system, others[place].content]))
    return [*others[:place], user, *others[place + 1 :]]
