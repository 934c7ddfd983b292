"""Between our messages and those of OpenAI's chat API."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field, JsonValue

from agentfly.types import Message, ToolCall


def to_wire(message: Message, *, native_calls: bool) -> dict[str, Any]:
    """Write a message as OpenAI's chat API takes it.

    Reasoning is left out: servers refuse it, or ignore it.

    Args:
        message: Any message of the conversation.
        native_calls: Whether the server knows the tools. If not, the calls are part of the text
            that the model wrote, and are not told a second time.
    """
    wire: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls and native_calls:
        wire["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.content
    images = [
        {"type": "image_url", "image_url": {"url": image.data_url()}} for image in message.images
    ]
    return [{"type": "text", "text": message.content}, *images]


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(raw: str) -> str:
    """Return arguments that a server can parse: many refuse a conversation for one broken call."""
    try:
        json.loads(raw)
    except ValueError:
        return json.dumps({"malformed": raw})
    return raw


class _WireFunction(BaseModel):
    name: str
    arguments: JsonValue = ""


class _WireCall(BaseModel):
    id: str | None = None
    function: _WireFunction


class _WireMessage(BaseModel):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_WireCall] | None = None


class _WireChoice(BaseModel):
    message: _WireMessage


class ChatAnswer(BaseModel):
    """The part of a chat completion that matters here."""

    choices: list[_WireChoice] = Field(min_length=1)

    def to_message(self) -> Message:
        """Return what the model said."""
        said = self.choices[0].message
        return Message(
            role="assistant",
            content=said.content or "",
            reasoning=said.reasoning_content or said.reasoning or None,
            tool_calls=_calls(said.tool_calls or ()),
        )


def _calls(calls: Sequence[_WireCall]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=call.id or f"call_{index}",
            name=call.function.name,
            arguments=_raw(call.function.arguments),
        )
        for index, call in enumerate(calls)
    )


def _raw(arguments: JsonValue) -> str:
    """Keep the text that the model wrote; some servers have parsed it already."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
