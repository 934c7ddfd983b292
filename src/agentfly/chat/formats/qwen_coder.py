"""Qwen3-Coder, Qwen 3.5 and Nemotron 3: functions and parameters as tags, values as bare text.

<tool_call>
<function=search>
<parameter=query>
cats
</parameter>
</function>
</tool_call>
"""

import re
from collections.abc import Iterator, Sequence

from agentfly.chat.formats.json_calls import excerpt
from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.marks import ends
from agentfly.chat.formats.reading import (
    CUT_OFF,
    CallFormat,
    Found,
    Reading,
    assemble,
    unreadable,
    with_content,
)
from agentfly.chat.formats.text_values import ParameterTags, written_parameters
from agentfly.types import ToolCall

_START = re.compile(r"(?:<tool_call>\s*+)?<function=|<tool_call>")
_NAME = re.compile(r"([^<>\n]++)>")
_PARAMETERS = ParameterTags.of(
    opening=r"\s*<parameter=([^<>\n]++)>\n?",
    closing="</parameter>",
    following="<parameter=|</?function|</?tool_call>",
)
_TAIL = re.compile(r"\s*(</function>)?\s*(</tool_call>)?")
_ENDS = ends(close="</tool_call>", others=["<tool_call>", "<function="])
_EXPECTED = (
    "expected <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n"
    "</tool_call>, got "
)


def _read(text: str) -> Reading:
    return assemble(text, _find(text), drop=("<tool_call>", "</tool_call>"))


def _find(text: str) -> Iterator[Found]:
    end = 0
    while start := _START.search(text, end):
        call, end = _call_at(text, start)
        yield Found(start.start(), end, [call])


def _call_at(text: str, start: re.Match[str]) -> tuple[ToolCall, int]:
    name = _NAME.match(text, start.end()) if start[0].endswith("=") else None
    if name is None:
        return _malformed(text, start)
    values, pos, all_closed = _PARAMETERS.read(text, name.end())
    tail = _TAIL.match(text, pos)
    if tail is None or not (tail[1] or tail[2]):
        return _malformed(text, start, name[1])
    whole = all_closed and bool(tail[1]) and bool(tail[2]) and start[0].startswith("<tool")
    call = ToolCall(id="", name=name[1].strip(), arguments=dump(values), repaired=not whole)
    return call, tail.end()


def _malformed(text: str, start: re.Match[str], name: str = "") -> tuple[ToolCall, int]:
    end = _ENDS.search(text, start.end())
    body = text[start.start() : end.start() if end else len(text)]
    problem = _EXPECTED + excerpt(body) if end else CUT_OFF
    going_on = len(text) if end is None else end.end() if end.lastgroup else end.start()
    return unreadable(problem, body, name=name), going_on


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    return with_content(content, "\n".join(map(_write_call, calls)))


def _write_call(call: ToolCall) -> str:
    parameters = written_parameters(call, "<parameter={}>\n{}\n</parameter>\n")
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"


QWEN3_CODER = CallFormat(name="qwen3-coder", read=_read, write=_write)
