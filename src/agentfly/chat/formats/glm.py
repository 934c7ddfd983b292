"""GLM 4.5 and later: the name, then keys and values as tags, values as bare text.

<tool_call>search
<arg_key>query</arg_key>
<arg_value>cats</arg_value>
</tool_call>
"""

import re
from collections.abc import Sequence

from agentfly.chat.formats.json_calls import excerpt
from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.marks import ends, marked
from agentfly.chat.formats.reading import (
    CUT_OFF,
    CallFormat,
    Reading,
    assemble,
    unreadable,
    with_content,
)
from agentfly.chat.formats.text_values import ParameterTags, written_parameters
from agentfly.types import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_NAME = re.compile(r"\s*([^\s<>{}]++)")
_PARAMETERS = ParameterTags.of(
    opening=r"\s*<arg_key>([^<]*+)</arg_key>\s*<arg_value>",
    closing="</arg_value>",
    following="<arg_key>|</?tool_call>",
)
_ENDS = ends(close=CLOSE, others=[OPEN])
_EXPECTED = (
    f"expected {OPEN}NAME\n<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n{CLOSE}, got "
)


def _read(text: str) -> Reading:
    return assemble(text, marked(text, OPEN, _call_at), drop=(OPEN, CLOSE))


def _call_at(text: str, start: int) -> tuple[list[ToolCall], int]:
    name = _NAME.match(text, start)
    values, pos, all_closed = _PARAMETERS.read(text, name.end() if name else start)
    end = _ENDS.search(text, pos)
    stop = end.start() if end else len(text)
    going_on = end.end() if end and end.lastgroup else stop
    if end and name and not text[pos:stop].strip():
        whole = all_closed and bool(end.lastgroup)
        call = ToolCall(id="", name=name[1], arguments=dump(values), repaired=not whole)
        return [call], going_on
    body = text[start:stop]
    problem = _EXPECTED + excerpt(body) if end else CUT_OFF
    return [unreadable(problem, body, name=name[1] if name else "")], going_on


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    return with_content(content, "\n".join(map(_write_call, calls)))


def _write_call(call: ToolCall) -> str:
    pairs = written_parameters(call, "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n")
    return f"{OPEN}{call.name}\n{pairs}{CLOSE}"


GLM = CallFormat(name="glm", read=_read, write=_write)
