"""Arguments that are almost JSON: bare keys, and strings between marks instead of quotes.

Gemma 4 writes `{city:<|"|>Rome<|"|>,days:3}`. Nothing in a string is escaped.
"""

import json
import re
from typing import Any

from agentfly.chat.formats.call_format import CUT_OFF
from agentfly.chat.formats.json_calls import Arguments, excerpt
from agentfly.chat.formats.json_text import dump
from agentfly.runtime.repair_json import NUMBER, repair_object

MAX_DEPTH = 100
"""Maximum nesting of arguments that are read; no call is nested more deeply."""

_SPACE = re.compile(r"\s*+")
_BARE = re.compile(r"[^\s,:\[\]{}<>]++")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


class _FaultError(ValueError):
    """Text that is no value; at the end of the text it was cut off."""


_LONGEST_KEY = 256


def quoted_arguments_at(
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


def write_quoted(value: object, quote: str) -> str:
    """Write a value as it is read."""
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            pairs = (f"{key}:{write_quoted(item, quote)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(write_quoted(item, quote) for item in value)}]"
        case _:
            return dump(value)
