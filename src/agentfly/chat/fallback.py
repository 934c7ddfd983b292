r"""What a template can't render, worded so that it can.

- **No tool messages** (the template raises, or leaves them out): a user's message that says
  `Result of the tool NAME:` and the result on the next line. Several results, and a user's message
  beside them, are joined by an empty line into one user's message, for such templates mostly want
  user and assistant to take turns.
- **No tool calls**: a call is written into the assistant's content, as the call format writes it.
- **No tools**: they are described at the end of the system prompt, one JSON schema a line, with an
  example call in the call format.
- **No system message**: it is put in front of the first user's message, with an empty line between.

The same is done where a template can do it, but the call format is one that no template knows (such
as ReAct): such a format's own instructions take the place of the template's way of showing tools.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from agentfly.chat.capabilities import Capabilities, text_view
from agentfly.chat.formats import CallFormat
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall, ToolSpec


def adapt(
    messages: Iterable[Message], capabilities: Capabilities, call_format: CallFormat
) -> list[Message]:
    """Rewrite messages so that a template with these capabilities renders them all."""
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
    """Turn tool messages into users' messages, and join those that stand side by side."""
    spoken = (_result_as_user(message) for message in messages)
    return list(_joined(spoken))


def as_one_user(messages: Sequence[Message]) -> list[Message]:
    """Turn whatever is said into one user's message."""
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
