"""Reading calls whose arguments are JSON: whole calls as JSON in marks, or a name and its JSON.

Some arguments are only almost JSON: bare keys, and strings between marks instead of quotes, with
nothing escaped in them. Gemma 4 writes `{city:<|"|>Rome<|"|>,days:3}`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from agentfly.chat.formats.call_format import CUT_OFF, Found, Reading, assemble
from agentfly.chat.formats.call_layout import Layout, placeholder_pattern
from agentfly.chat.formats.json_calls import (
    Arguments,
    CallKeys,
    arguments_at,
    calls_at,
    excerpt,
    starts_json,
)
from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.marks import end_pattern, find_marked, in_section
from agentfly.chat.formats.plain_json import find_calls
from agentfly.runtime.repair_json import MAX_DEPTH, NUMBER, repair_object
from agentfly.types import ToolCall

_NAME_KEY = re.compile(r'"(\w+)": "\{name\}"')
_ARGUMENTS_KEY = re.compile(r'"(\w+)": \{arguments\}')
_ID_KEY = re.compile(r'"(\w+)": "\{id\}"')
_FENCE = re.compile(r"\s*```\w*\s*")
_SPACE = re.compile(r"\s*+")
_BARE = re.compile(r"[^\s,:\[\]{}<>]++")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_LONGEST_KEY = 256

ArgumentsReader = Callable[[str, int, re.Pattern[str]], Arguments]


def json_reader(layout: Layout) -> Callable[[str], Reading]:
    """Return what reads calls with JSON in them.

    <tool_call>{"name": "search", "arguments": {"query": "cats"}}</tool_call>
    [TOOL_CALLS]search[ARGS]{"query": "cats"}
    """
    opening, closing = layout.opening, layout.closing
    section_opening, section_closing = layout.section_marks
    others = filter(None, (opening, section_closing))
    call_ends = end_pattern(close=closing or None, others=[*others])
    keys = _keys(layout.call)
    forms = (layout.call, *layout.also)
    heads = [_head(form, opening) for form in forms if '"{name}"' not in form]
    arguments_from = _arguments_reader(layout)
    dropped = tuple(filter(None, (opening, closing, *layout.markup)))
    as_written = layout.is_json

    def calls_from(text: str, start: int) -> tuple[Sequence[ToolCall], int]:
        head = next(filter(None, (head.match(text, start) for head in heads)), None)
        if head is None and (as_written or starts_json(text, start)):
            calls, end = calls_at(text, start, call_ends, keys=keys)
            if as_written:
                return calls, end
            return [c if c.problem else replace(c, repaired=True) for c in calls], end
        arguments = arguments_from(text, head.end() if head else start, call_ends)
        call = arguments.call(_group(head, "name"), id=_id(head))
        return [call], arguments.end

    def find(text: str) -> Iterator[Found]:
        if not opening:
            return find_calls(text, keys=keys)
        if heads or opening in text or not closing or closing not in text:
            return find_marked(text, opening, closing, calls_from)
        return _without_opening(text, closing, keys)

    def read(text: str) -> Reading:
        found = find(text)
        if section_opening:
            found = in_section(text, section_opening, found)
        return assemble(text, found, drop=dropped)

    return read


def _without_opening(text: str, closing: str, keys: CallKeys) -> Iterator[Found]:
    """Find calls whose opening mark was forgotten: only JSON and the closing mark are there."""
    for found in find_calls(text[: text.index(closing)], keys=keys):
        yield replace(found, calls=[replace(call, repaired=True) for call in found.calls])


def _arguments_reader(layout: Layout) -> ArgumentsReader:
    if not layout.quote:
        return arguments_at

    def read(text: str, start: int, call_ends: re.Pattern[str]) -> Arguments:
        return _quoted_arguments_at(
            text, start, call_ends, quote=layout.quote, expected=layout.expected()
        )

    return read


def _keys(call: str) -> CallKeys:
    """Return under which keys a call's JSON has its parts."""
    name, arguments, id_ = (
        pattern.search(call) for pattern in (_NAME_KEY, _ARGUMENTS_KEY, _ID_KEY)
    )
    if '"{name}"' not in call:
        return CallKeys()
    return CallKeys(
        name=name[1] if name else "",
        arguments=arguments[1] if arguments else "",
        id=id_[1] if id_ else "id",
        wrapped='"function": {"' in call,
    )


def _head(call: str, opening: str) -> re.Pattern[str]:
    """Return what matches all between a call's opening mark and its arguments."""
    _, _, rest = call.partition(opening)
    head, _, _ = rest.partition("{arguments}")
    return re.compile(placeholder_pattern(_FENCE.sub("\n", head)))


def _group(head: re.Match[str] | None, name: str) -> str:
    return (head.groupdict().get(name) or "").strip() if head else ""


def _id(head: re.Match[str] | None) -> str:
    """Return the id that a call's head carries; one with a number in it is an id as a whole."""
    if head and _group(head, "index"):
        return head.string[head.start() : head.end("index")].strip()
    return _group(head, "id")


# --- Arguments that are almost JSON -----------------------------------------------------------


class _FaultError(ValueError):
    """Text that is no value; at the end of the text it was cut off."""


def _quoted_arguments_at(
    text: str, start: int, ends: re.Pattern[str], *, quote: str, expected: str
) -> Arguments:
    """Read one object of arguments from `start` up to a mark of `ends`."""
    scanner = _Scanner(text, quote)
    try:
        value, end = scanner.value(_skip(text, start), 0)
        if not isinstance(value, dict):
            raise _FaultError("expected an object")
    except (_FaultError, RecursionError):
        return _malformed(text, start, ends, expected)
    closing = ends.search(text, end)
    closes = closing is not None and closing.lastgroup == "close"
    between = text[end : closing.start() if closing else len(text)].strip()
    stop = closing.end() if closing and closes else end
    return Arguments(text=dump(value), repaired=not closes or bool(between), end=stop)


def _malformed(text: str, start: int, ends: re.Pattern[str], expected: str) -> Arguments:
    closing = ends.search(text, start)
    if closing is None:
        return Arguments(text=text[start:], problem=CUT_OFF, end=len(text))
    body = text[start : closing.start()].strip()
    end = closing.end() if closing.lastgroup == "close" else closing.start()
    repaired = repair_object(body, 0) if body.startswith("{") else None
    if repaired is not None:
        return Arguments(text=repaired[0], repaired=True, end=end)
    return Arguments(text=body, problem=f"{expected}, got {excerpt(body)}", end=end)


class _Scanner:
    def __init__(self, text: str, quote: str) -> None:
        self._text = text
        self._quote = quote

    def value(self, pos: int, depth: int) -> tuple[Any, int]:
        """Return the value that begins here, and where it ends."""
        if depth > MAX_DEPTH:
            raise _FaultError("nested too deeply")
        text = self._text
        if text.startswith(self._quote, pos):
            return self._string(pos)
        if text.startswith("{", pos):
            return self._members(pos + 1, depth)
        if text.startswith("[", pos):
            return self._items(pos + 1, depth)
        bare = _BARE.match(text, pos)
        if bare is None:
            raise _FaultError(f"expected a value at {pos}")
        return _bare_value(bare[0]), bare.end()

    def _string(self, pos: int) -> tuple[str, int]:
        begin = pos + len(self._quote)
        end = self._text.find(self._quote, begin)
        if end < 0:
            raise _FaultError("a string has no end")
        return self._text[begin:end], end + len(self._quote)

    def _members(self, pos: int, depth: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        pos = _skip(self._text, pos)
        while not self._text.startswith("}", pos):
            key, pos = self._key(pos)
            members[key], pos = self.value(_skip(self._text, pos), depth + 1)
            pos = self._separator(pos, "}")
        return members, pos + 1

    def _items(self, pos: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        pos = _skip(self._text, pos)
        while not self._text.startswith("]", pos):
            item, pos = self.value(pos, depth + 1)
            items.append(item)
            pos = self._separator(pos, "]")
        return items, pos + 1

    def _key(self, pos: int) -> tuple[str, int]:
        if self._text.startswith(self._quote, pos):
            key, end = self._string(pos)
        else:
            end = self._text.find(":", pos, pos + _LONGEST_KEY)
            key = self._text[pos:end]
        end = _skip(self._text, end)
        if end < 0 or not self._text.startswith(":", end):
            raise _FaultError(f"expected a key and a colon at {pos}")
        return key.strip(), end + 1

    def _separator(self, pos: int, closing: str) -> int:
        pos = _skip(self._text, pos)
        if self._text.startswith(",", pos):
            return _skip(self._text, pos + 1)
        if not self._text.startswith(closing, pos):
            raise _FaultError(f"expected a comma or {closing} at {pos}")
        return pos


def _skip(text: str, pos: int) -> int:
    match = _SPACE.match(text, pos)
    return match.end() if match else pos


def _bare_value(word: str) -> object:
    if word in _WORDS:
        return _WORDS[word]
    return json.loads(word) if NUMBER.fullmatch(word) else word
