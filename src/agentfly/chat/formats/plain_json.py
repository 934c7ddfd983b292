"""Calls as bare JSON objects in a text, without any mark: Llama 3 and plain JSON."""

import re
from collections.abc import Iterator, Sequence

from agentfly.chat.formats.call_format import (
    CallFormat,
    Found,
    Reading,
    assemble,
    tool_instructions,
    with_content,
)
from agentfly.chat.formats.json_calls import (
    DEFAULT_KEYS,
    CallKeys,
    call_from,
    is_call,
    malformed_calls,
    write_call,
)
from agentfly.chat.formats.json_text import (
    balanced_end,
    scan_up_to_fault,
    unclosed_objects,
)
from agentfly.types import ToolCall, ToolSpec

_OBJECT = re.compile(r"""\{\s*["']""")
_CALL = re.compile(r"""\{\s*["'](?:name|function|type|id|arguments|parameters)["']\s*:""")
_ARGUMENTS = re.compile(r"""["'](?:arguments|parameters|function)["']\s*:""")
_BEFORE = re.compile(r"(?:```\w*|[\s\[,;])*\Z")
_AFTER = re.compile(r"(?:[\s\],;]|```(?!\w))*+")
_WIDEST_FENCE = 32
"""Maximum characters before a call that are searched for a code fence or list bracket."""


def find_calls(text: str, *, keys: CallKeys = DEFAULT_KEYS) -> Iterator[Found]:
    """Find the objects that are calls; any other JSON is an answer and stays in the text."""
    end, unclosed = 0, set[int]()
    while start := _OBJECT.search(text, end):
        calls, end = _calls_of(text, start.start(), keys, unclosed)
        if calls:
            yield _widened(text, Found(start.start(), end, calls))


def _calls_of(
    text: str, start: int, keys: CallKeys, unclosed: set[int]
) -> tuple[list[ToolCall], int]:
    """Read the object at `start`; `unclosed` are those known to lack an end, and more are added."""
    if start not in unclosed:
        members, end, sound = scan_up_to_fault(text, start)
        if end is not None:
            return ([call_from(members, keys=keys)] if is_call(members) else []), end
        # What is open where the outer object fails, fails there too.
        unclosed |= unclosed_objects(text, start, sound)
    if not _CALL.match(text, start):
        return [], start + 1
    end = balanced_end(text, start)
    if end is None:
        return malformed_calls(text[start:], keys=keys, cut=True), len(text)
    if not _ARGUMENTS.search(text, start, end):
        return [], end
    return malformed_calls(text[start:end], keys=keys, cut=False), end


def _widened(text: str, found: Found) -> Found:
    """Take in the code fence or the list brackets around a call."""
    before = _BEFORE.search(text[max(0, found.start - _WIDEST_FENCE) : found.start])
    after = _AFTER.match(text, found.end)
    fence = len(before[0]) if before else 0
    return Found(found.start - fence, after.end() if after else found.end, found.calls)


def _read(text: str) -> Reading:
    return assemble(text, find_calls(text))


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    return with_content(content, "\n".join(write_call(call) for call in calls))


def _instructions(tools: Sequence[ToolSpec]) -> str:
    how = (
        "To use a tool, reply with one JSON object on a line of its own for each call, and nothing "
        'after it:\n{"name": "<tool name>", "arguments": {"<parameter>": <value>}}\n'
        "The results come in the next message. When you know the answer, reply without any call."
    )
    return tool_instructions(tools, how)


PLAIN_JSON = CallFormat(name="json", read=_read, write=_write, instructions=_instructions)
