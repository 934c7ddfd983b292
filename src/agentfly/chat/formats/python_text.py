"""Python calls whose values are written as they are, quoted or not.

    [search(query=cats and dogs, limit=3), now()]
    [search(query="cats and dogs", limit="3")]

Some templates write the history of pythonic models so. No value shows its type: a tool's schema
has to tell it (see `text_values`). A value ends where the next key or the call's end comes.
"""

import ast
import re
from typing import Any

from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.text_values import value_of
from agentfly.types import ToolCall

_CALL = re.compile(r"\s*+([A-Za-z_][\w.]*+)\(\s*+")
_KEY = re.compile(r"([A-Za-z_]\w*+)\s*+=\s*+")
_QUOTED = re.compile(r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')(?=\s*+[,)])""", re.S)
_VALUE_END = re.compile(r"(,\s*+)(?=[A-Za-z_]\w*+\s*+=)|\)(?=\s*+(?:,\s*+[A-Za-z_][\w.]*+\(|\]))")
_CALL_END = re.compile(r"\s*+([,\]])")


def read_text_list(text: str, start: int) -> tuple[list[ToolCall], int] | None:
    """Read the list whose bracket is at `start`, up to its end; None if it isn't one.

    >>> (call,), end = read_text_list("[search(query=cats and dogs, limit=3)].", 0)
    >>> call.arguments, end
    ('{"query": "cats and dogs", "limit": 3}', 38)
    """
    calls, at = list[ToolCall](), start + 1
    while name := _CALL.match(text, at):
        read = _arguments_at(text, name.end())
        closing = _CALL_END.match(text, read[1]) if read else None
        if read is None or closing is None:
            return None
        calls.append(ToolCall(id="", name=name[1], arguments=dump(read[0])))
        at = closing.end()
        if closing[1] == "]":
            return calls, at
    return None


def _arguments_at(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the arguments that begin here, and the place behind their parenthesis."""
    if text.startswith(")", at):
        return {}, at + 1
    values: dict[str, Any] = {}
    while key := _KEY.match(text, at):
        quoted = _QUOTED.match(text, key.end())
        ends = _VALUE_END.search(text, quoted.end() if quoted else key.end())
        if ends is None:
            return None
        written = text[key.end() : ends.start()].strip()
        values[key[1]] = _unquoted(written) if quoted else value_of(written)
        at = ends.end()
        if not ends[1]:
            return values, at
    return None


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return text[1:-1]  # a line break, or an escape that is none
