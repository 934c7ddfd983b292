"""Capabilities of a chat template, detected by rendering probe messages, not by its name.

Templates expect messages in different forms. `Capabilities.write` writes a message in the form that
one template expects; what the template can't render at all is rewritten by `conversation_writer`.
"""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.tokenizer_adapters import well_formed
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall, ToolSpec

_SHORT_ID = 9
"""Mistral's templates take call ids of exactly this many letters and digits."""


def mark(number: int) -> str:
    """Return a text that survives trimming and quoting, and that no template contains."""
    return f"zq{number}mark{number}qz"


PROBE_TOOL = ToolSpec(
    name="zqtoolqz",
    description="zqtoolqz",
    parameters={
        "type": "object",
        "properties": {"zqkey": {"type": "string", "description": "zqkey"}},
        "required": ["zqkey"],
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The kinds of messages that a template renders, and the form in which it expects them."""

    content_parts: bool = False
    """Content must be a list of parts, as vision templates have it; only text parts are made."""
    system: bool = True
    tools: bool = True
    calls: bool = True
    """Tool calls of an assistant's message show."""
    tool_messages: bool = True
    results_without_calls: bool = True
    """Tool messages are rendered even if no call precedes them."""
    string_arguments: bool = False
    """A call's arguments must be JSON text instead of an object."""
    short_ids: bool = False
    null_content: bool = False
    """The content of a message with calls must be None."""

    def for_taught_calls(self) -> "Capabilities":
        """Return the capabilities to use where calls are written into the content as text."""
        results = self.tool_messages and self.results_without_calls
        return replace(self, tools=False, calls=False, tool_messages=results, null_content=False)

    def write(self, message: Message) -> dict[str, Any]:
        """Write a message as this template reads it."""
        plain: dict[str, Any] = {"role": message.role, "content": self._content(message)}
        if message.reasoning is not None:
            plain |= _reasoning(message)
        if message.tool_calls:
            plain["tool_calls"] = [self._call(call) for call in message.tool_calls]
        if message.tool_call_id is not None:
            plain["tool_call_id"] = self._id(message.tool_call_id)
        if message.name is not None:
            plain["name"] = well_formed(message.name)
        return plain

    def _content(self, message: Message) -> object:
        text = text_view(message)
        if self.null_content and message.tool_calls and not text:
            return None
        return [{"type": "text", "text": text}] if self.content_parts else text

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = call.arguments if self.string_arguments else _as_object(call.arguments)
        function = {"name": well_formed(call.name), "arguments": arguments}
        return {"id": self._id(call.id), "type": "function", "function": function}

    def _id(self, call_id: str) -> str:
        if not self.short_ids or (len(call_id) == _SHORT_ID and call_id.isalnum()):
            return well_formed(call_id)
        return hashlib.blake2b(well_formed(call_id).encode()).hexdigest()[:_SHORT_ID]


def text_view(message: Message) -> str:
    """Return a message's text; pictures are only named, for these templates carry text alone."""
    if not message.images:
        return well_formed(message.content)
    named = [f"[image: {image.media_type}, {len(image.data)} bytes]" for image in message.images]
    return "\n".join([part for part in (well_formed(message.content), *named) if part])


def _reasoning(message: Message) -> dict[str, str]:
    """Return the reasoning under every key that templates read it from."""
    reasoning = well_formed(message.reasoning or "")
    names = {"reasoning_content": reasoning, "reasoning": reasoning}
    # gpt-oss refuses `thinking` together with content where there are calls.
    return names if message.content and message.tool_calls else {**names, "thinking": reasoning}


def _as_object(arguments: str) -> Mapping[str, Any]:
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": well_formed(arguments)}


def detect_capabilities(template: ChatTemplate) -> Capabilities:
    """Try out what a template renders, and in which form."""
    capabilities = _with_content(template)
    user = Message(role="user", content=mark(0))
    system = Message(role="system", content=mark(1))
    capabilities = replace(
        capabilities,
        system=_shows(template, capabilities, [system, user], [mark(0), mark(1)]),
        tools=_shows(template, capabilities, [user], [mark(0), PROBE_TOOL.name], [PROBE_TOOL]),
    )
    said = Message(role="assistant", content=mark(1))
    result = Message(role="tool", content=mark(2), name=PROBE_TOOL.name, tool_call_id="call_0")
    bare = _shows(template, capabilities, [user, said, result], [mark(2)])
    return replace(_with_tool_messages(template, capabilities, user), results_without_calls=bare)


def _with_content(template: ChatTemplate) -> Capabilities:
    user = Message(role="user", content=mark(0))
    for capabilities in (Capabilities(), Capabilities(content_parts=True)):
        if _shows(template, capabilities, [user], [mark(0)]):
            return capabilities
    # Render once more, to raise the template's own error message if it refuses.
    template.render([Capabilities().write(user)], add_generation_prompt=True)
    raise ConfigError("the chat template doesn't show a user's message: it can't be used for chat")


def _with_tool_messages(
    template: ChatTemplate, capabilities: Capabilities, user: Message
) -> Capabilities:
    call = ToolCall(id="call_0", name=PROBE_TOOL.name, arguments=f'{{"zqkey": "{mark(1)}"}}')
    asked = Message(role="assistant", tool_calls=(call,))
    answered = Message(role="tool", content=mark(2), name=call.name, tool_call_id=call.id)
    forms = [
        replace(capabilities, string_arguments=string, null_content=null, short_ids=short)
        for string, null, short in itertools.product((False, True), repeat=3)
    ]
    # A template that prints arguments as Python has them means to be given their JSON.
    as_python = repr(json.loads(call.arguments))
    if any(_shows(template, form, [user, asked], [as_python]) for form in forms):
        forms.sort(key=lambda form: not form.string_arguments)
    for form in forms:
        if _shows(template, form, [user, asked, answered], [mark(0), mark(1), mark(2)]):
            return form
    callless = replace(capabilities, calls=False)
    if _shows(template, callless, [user, asked, answered], [mark(0), mark(2)]):
        return callless
    calls = next((form for form in forms if _shows(template, form, [user, asked], [mark(1)])), None)
    return replace(calls or callless, tool_messages=False)


def _shows(
    template: ChatTemplate,
    capabilities: Capabilities,
    messages: Sequence[Message],
    marks: Sequence[str],
    tools: Sequence[ToolSpec] = (),
) -> bool:
    """Return whether the template renders these messages with all of the marks in the text."""
    plain = [capabilities.write(message) for message in messages]
    try:
        text = template.render(
            plain, [tool.to_openai() for tool in tools], add_generation_prompt=True
        )
    except ConfigError:
        return False
    return all(mark in text for mark in marks)
