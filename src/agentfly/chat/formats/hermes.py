"""Hermes, Qwen 2.5 and Qwen 3: a JSON object in `<tool_call>` tags.

<tool_call>
{"name": "search", "arguments": {"query": "cats"}}
</tool_call>
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentfly.chat.formats.json_calls import calls_at, write_call
from agentfly.chat.formats.json_objects import find_calls
from agentfly.chat.formats.marks import ends, marked
from agentfly.chat.formats.reading import CallFormat, Found, Reading, assemble, with_content
from agentfly.types import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_ENDS = ends(close=CLOSE, others=[OPEN])


def _read(text: str) -> Reading:
    return assemble(text, _find(text), drop=(OPEN, CLOSE))


def _find(text: str) -> Iterator[Found]:
    if OPEN in text or CLOSE not in text:
        yield from marked(text, OPEN, lambda text, start: calls_at(text, start, _ENDS))
        return
    # The opening tag was forgotten: only the JSON and the closing tag are there.
    for found in find_calls(text[: text.index(CLOSE)]):
        yield replace(found, calls=[replace(call, repaired=True) for call in found.calls])


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    tagged = (f"{OPEN}\n{write_call(call)}\n{CLOSE}" for call in calls)
    return with_content(content, "\n".join(tagged))


HERMES = CallFormat(name="hermes", read=_read, write=_write)
