"""DeepSeek: a section of calls between special tokens.

    V3, R1   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search
             ```json
             {"query": "cats"}
             ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
    V3.1     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{"query": "cats"}
             <｜tool▁call▁end｜><｜tool▁calls▁end｜>      (on one line)

Both formats read both forms; they differ in which one they write.
"""

import re
from collections.abc import Callable, Sequence

from agentfly.chat.formats.json_calls import arguments_at
from agentfly.chat.formats.marks import ends, in_section, marked
from agentfly.chat.formats.reading import CallFormat, Reading, assemble, with_content
from agentfly.types import ToolCall

SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
OPEN, CLOSE, SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_HEAD = re.compile(rf"([^<]*+){SEPARATOR}\s*+([^\s{{`<]*+)")
_ENDS = ends(close=CLOSE, others=[OPEN, SECTION_END])


def _read(text: str) -> Reading:
    found = in_section(text, SECTION, marked(text, OPEN, _call_at))
    return assemble(text, found, drop=(SECTION, SECTION_END))


def _call_at(text: str, start: int) -> tuple[list[ToolCall], int]:
    head = _HEAD.match(text, start)
    arguments = arguments_at(text, head.end() if head else start, _ENDS)
    name = (head[2] or head[1]).strip() if head else ""
    return [arguments.call(name)], arguments.end


def _write_v3(call: ToolCall) -> str:
    return f"{OPEN}function{SEPARATOR}{call.name}\n```json\n{call.arguments}\n```{CLOSE}"


def _write_v31(call: ToolCall) -> str:
    return f"{OPEN}{call.name}{SEPARATOR}{call.arguments}{CLOSE}"


def _deepseek(name: str, write_call: Callable[[ToolCall], str], between: str) -> CallFormat:
    def write(calls: Sequence[ToolCall], content: str = "") -> str:
        written = between.join(map(write_call, calls))
        return with_content(content, f"{SECTION}{written}{SECTION_END}" if calls else "")

    return CallFormat(name=name, read=_read, write=write)


DEEPSEEK_V3 = _deepseek("deepseek-v3", _write_v3, "\n")
DEEPSEEK_V31 = _deepseek("deepseek-v3.1", _write_v31, "")
