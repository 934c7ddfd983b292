"""Messages of a conversation. Text here is a view: the trajectory keeps the tokens."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from agentfly.errors import ConfigError

Role = Literal["system", "user", "assistant", "tool"]
_ROLES = get_args(Role)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Tool call as the model wrote it, not yet validated."""

    id: str
    name: str
    arguments: str
    """Raw text of the arguments, valid JSON or not."""
    problem: str | None = None
    """Reason why no call could be read, for example a missing name; shown to the model."""
    repaired: bool = False
    """Whether invalid JSON around the call was repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Image as a tool returned it."""

    data: bytes
    media_type: str = "image/png"

    def data_url(self) -> str:
        """Return the image as a `data:` URL, the form that servers and templates take."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str = ""
    reasoning: str | None = None
    """Reasoning before the content, where the format separates the two."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    """Name of the tool that answers, on tool messages."""
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ConfigError(f"unknown role {self.role!r}: expected one of {', '.join(_ROLES)}")
        if self.tool_call_id is not None and self.role != "tool":
            raise ConfigError(f"only tool messages carry a tool_call_id, not {self.role} messages")
        if self.tool_calls and self.role != "assistant":
            raise ConfigError(f"only assistant messages carry tool calls, not {self.role} messages")

    @classmethod
    def from_dict(cls, value: object) -> "Message":
        """Read a message in OpenAI's form: `{"role": ..., "content": ...}`.

        The role `developer` is a newer name for `system`.
        """
        if isinstance(value, Message):
            return value
        if not isinstance(value, Mapping) or "role" not in value:
            raise ConfigError(
                f'a message is a dict such as {{"role": "user", "content": "hi"}}, got {value!r}'
            )
        unknown = {key for key, field in value.items() if field is not None} - _KNOWN_KEYS
        if unknown:
            raise ConfigError(
                f"unknown keys in a message: {', '.join(sorted(unknown))}. "
                f"Known: {', '.join(sorted(_KNOWN_KEYS))}"
            )
        return cls(
            role="system" if value["role"] == "developer" else value["role"],
            content=_text(value.get("content")),
            reasoning=value.get("reasoning_content"),
            tool_calls=tuple(_call(call) for call in value.get("tool_calls") or ()),
            tool_call_id=value.get("tool_call_id"),
            name=value.get("name"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Write the message in OpenAI's form; arguments become an object where they are one."""
        plain: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning is not None:
            plain["reasoning_content"] = self.reasoning
        if self.tool_calls:
            plain["tool_calls"] = [_plain_call(call) for call in self.tool_calls]
        if self.tool_call_id is not None:
            plain["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            plain["name"] = self.name
        return plain


_KNOWN_KEYS = {"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"}


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        if all(isinstance(part, str) for part in parts):
            return "".join(str(part) for part in parts)
    raise ConfigError(f"a message's content is a string or a list of text parts, got {content!r}")


def _call(value: Mapping[str, Any]) -> ToolCall:
    function = value.get("function", value)
    if not isinstance(function, Mapping) or "name" not in function:
        raise ConfigError(f"a tool call needs a function with a name, got {value!r}")
    arguments = function.get("arguments", {})
    return ToolCall(
        id=str(value.get("id", "")),
        name=str(function["name"]),
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
    )


def _plain_call(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
