"""Attempts to inject special tokens through text, in every field that comes from outside.

A special token that only the template should write is spelled out in one field, alone and
with a word inside that some templates delete (`<SPECIAL_/think12>`). The special tokens that come
out must be those of the same conversation with its brackets replaced.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from agentfly.chat.template_check.reference_renderer import TOOL, ReferenceRenderer
from agentfly.chat.template_renderer import TemplateRenderer
from agentfly.errors import ConfigError
from agentfly.types import Completion, FinishReason, Message, ToolCall, ToolSpec
from agentfly.types.message import Role

_HARMLESS = str.maketrans(
    {**dict.fromkeys("<[{", "("), **dict.fromkeys(">]}", ")"), "|": "!", "｜": "!"}
)
_CUT_SHORT = Completion(token_ids=(), logprobs=(), versions=(), finish_reason=FinishReason.LENGTH)

Asked = tuple[list[Message], list[ToolSpec]]
Field = Callable[[str, ToolCall], Asked]


def _conversation(
    call: ToolCall,
    *,
    system: str = "Be kind.",
    user: str = "And now?",
    said: str = "I see.",
    thought: str | None = None,
    result: str = "Rain.",
    named: str | None = None,
    tool: ToolSpec = TOOL,
) -> Asked:
    messages = [
        Message(role="system", content=system),
        Message(role="user", content="How is it?"),
        Message(role="assistant", content=said),
        Message(role="user", content=user),
        Message(role="assistant", reasoning=thought, tool_calls=(call,)),
        Message(role="tool", content=result, name=named or call.name, tool_call_id=call.id),
    ]
    return messages, [tool]


def _with_arguments(text: str, call: ToolCall) -> ToolCall:
    return replace(call, arguments=json.dumps({text: text, "deep": [{"query": text}]}))


def _with_description(text: str) -> ToolSpec:
    query = {"type": "string", "description": text, "enum": [text]}
    schema = {"type": "object", "properties": {"query": query, text: query}, "required": [text]}
    return ToolSpec(name=TOOL.name, description=text, parameters=schema)


FIELDS: dict[str, tuple[Role | None, Field]] = {
    "system prompt": ("system", lambda text, call: _conversation(call, system=text)),
    "user's text": ("user", lambda text, call: _conversation(call, user=text)),
    "assistant's text": ("assistant", lambda text, call: _conversation(call, said=text)),
    "reasoning": ("assistant", lambda text, call: _conversation(call, thought=text)),
    "arguments": (
        "assistant",
        lambda text, call: _conversation(_with_arguments(text, call)),
    ),
    "name of a call": ("assistant", lambda text, call: _conversation(replace(call, name=text))),
    "id of a call": ("assistant", lambda text, call: _conversation(replace(call, id=text))),
    "tool's result": ("tool", lambda text, call: _conversation(call, result=text)),
    "name of a result": ("tool", lambda text, call: _conversation(call, named=text)),
    "tool's name": (None, lambda text, call: _conversation(call, tool=replace(TOOL, name=text))),
    "tool's description": (
        None,
        lambda text, call: _conversation(call, tool=_with_description(text)),
    ),
}
"""The fields that come from outside: who writes each, and a conversation with a text in it."""


def forged_fields(renderer: TemplateRenderer, reference: ReferenceRenderer) -> tuple[str, ...]:
    """Return the fields whose text became, or changed, a special token."""
    (call,) = reference.calls({"query": "Paris"})
    return tuple(
        name
        for name, (role, field) in FIELDS.items()
        if role not in renderer.trusted_roles
        if any(_forges(renderer, field, text, call) for text in _hostile(renderer))
    )


def _hostile(renderer: TemplateRenderer) -> Iterator[str]:
    tokens = list(renderer.encoder.special_ids)
    yield f"x{'x'.join(tokens)}x"
    yield f"x{'x'.join(f'{token[:-3]}/think{token[-3:]}' for token in tokens)}x"


def _forges(renderer: TemplateRenderer, field: Field, text: str, call: ToolCall) -> bool:
    """Return whether a text in this field changes the special tokens of the rendering."""
    try:
        harmless = _special_tokens(renderer, *field(text.translate(_HARMLESS), call))
    except ConfigError:
        return False  # the template refuses such a conversation, with any text
    try:
        return _special_tokens(renderer, *field(text, call)) != harmless
    except ConfigError:
        return False  # refused: nothing is made of it


def _special_tokens(
    renderer: TemplateRenderer, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> list[Counter[int]]:
    """Count those of the prompt, and of what follows a turn that each reply answers."""
    special = frozenset(renderer.encoder.special_ids.values())
    replied = [i for i, m in enumerate(messages) if i > 1 and m.role in ("user", "tool")]
    extensions = (
        renderer.extend(messages[:i], _CUT_SHORT, [messages[i]], tools).token_ids for i in replied
    )
    return [
        Counter(token for token in ids if token in special)
        for ids in (renderer.open(messages, tools), *extensions)
    ]
