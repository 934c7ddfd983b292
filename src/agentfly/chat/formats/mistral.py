"""Mistral: `[TOOL_CALLS]`, followed by a JSON list (older) or by a name and its JSON (newer).

    [TOOL_CALLS] [{"name": "search", "arguments": {"query": "cats"}, "id": "a1b2c3d4e"}]
    [TOOL_CALLS]search[CALL_ID]a1b2c3d4e[ARGS]{"query": "cats"}

Both formats read both forms; they differ in which one they write.
"""

import re
from collections.abc import Callable, Sequence

from agentfly.chat.formats.json_calls import arguments_at, calls_at, write_call
from agentfly.chat.formats.marks import ends, marked
from agentfly.chat.formats.reading import CallFormat, Reading, assemble, with_content
from agentfly.types import ToolCall

OPEN = "[TOOL_CALLS]"
_JSON = re.compile(r"\s*+(?:```\w*+\s*+)?[\[{](?!ARGS\]|CALL_ID\]|TOOL_CALLS\])")
_NAME = re.compile(r"\s*+([^\s\[{]*+)\s*+(?:\[CALL_ID\]\s*+([^\s\[{]*+)\s*+)?(?:\[ARGS\])?")
_ENDS = ends(close=None, others=[OPEN])


def _read(text: str) -> Reading:
    return assemble(text, marked(text, OPEN, _calls_at))


def _calls_at(text: str, start: int) -> tuple[list[ToolCall], int]:
    head = _NAME.match(text, start)
    if head is None or _JSON.match(text, start):
        return calls_at(text, start, _ENDS)
    arguments = arguments_at(text, head.end(), _ENDS)
    return [arguments.call(head[1], id=head[2] or "")], arguments.end


def _write_list(calls: Sequence[ToolCall]) -> str:
    return f"{OPEN} [{', '.join(write_call(call) for call in calls)}]"


def _write_by_name(calls: Sequence[ToolCall]) -> str:
    return "".join(f"{OPEN}{call.name}[ARGS]{call.arguments}" for call in calls)


def _mistral(name: str, write_calls: Callable[[Sequence[ToolCall]], str]) -> CallFormat:
    def write(calls: Sequence[ToolCall], content: str = "") -> str:
        return with_content(content, write_calls(calls) if calls else "")

    return CallFormat(name=name, read=_read, write=write)


MISTRAL = _mistral("mistral", _write_list)
MISTRAL_V11 = _mistral("mistral-v11", _write_by_name)
