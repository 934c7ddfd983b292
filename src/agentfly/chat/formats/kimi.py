"""Kimi K2: a section of calls between special tokens, each with an id that holds its name.

<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>
{"query": "cats"}<|tool_call_end|><|tool_calls_section_end|>
"""

import re
from collections.abc import Sequence

from agentfly.chat.formats.json_calls import arguments_at
from agentfly.chat.formats.marks import ends, in_section, marked
from agentfly.chat.formats.reading import CallFormat, Reading, assemble, with_content
from agentfly.types import ToolCall

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
OPEN, CLOSE, ARGUMENTS = "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"
_HEAD = re.compile(rf"([^<]*+){re.escape(ARGUMENTS)}")
_ID = re.compile(r"(?:functions\.)?(.+):\d+", re.S)
_ENDS = ends(close=CLOSE, others=[OPEN, SECTION_END])


def _read(text: str) -> Reading:
    found = in_section(text, SECTION, marked(text, OPEN, _call_at))
    return assemble(text, found, drop=(SECTION, SECTION_END))


def _call_at(text: str, start: int) -> tuple[list[ToolCall], int]:
    head = _HEAD.match(text, start)
    arguments = arguments_at(text, head.end() if head else start, _ENDS)
    id_ = head[1].strip() if head else ""
    return [arguments.call(_name(id_), id=id_)], arguments.end


def _name(id_: str) -> str:
    match = _ID.fullmatch(id_)
    return match[1] if match else id_.removeprefix("functions.")


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    written = "".join(
        f"{OPEN}{_id(call, index)}{ARGUMENTS}{call.arguments}{CLOSE}"
        for index, call in enumerate(calls)
    )
    return with_content(content, f"{SECTION}{written}{SECTION_END}" if calls else "")


def _id(call: ToolCall, index: int) -> str:
    """Keep an id that says the call's name, as the model's own do, and make one otherwise."""
    own = call.id.startswith("functions.") and _name(call.id) == call.name
    return call.id if own else f"functions.{call.name}:{index}"


KIMI = CallFormat(name="kimi", read=_read, write=_write)
