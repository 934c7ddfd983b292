"""JSON inside other text: write it as templates do, find an object's members and its end.

All functions take linear time, also over degenerate completions, which repeat a few characters
thousands of times. Invalid JSON is repaired by `agentfly.runtime.repair_json`.
"""

import json
import re

from agentfly.runtime.repair_json import DOUBLE_QUOTED, MAX_DEPTH, SINGLE_QUOTED

_DECODER = json.JSONDecoder()
_OPEN = re.compile(r"\{\s*")
_COLON = re.compile(r"\s*:\s*")
_AFTER_MEMBER = re.compile(r"\s*(?:,\s*|(\}))")

_BRACKET_OR_STRING = re.compile(rf"{DOUBLE_QUOTED}?|{SINGLE_QUOTED}?|[][(){{}}]", re.S)
_FIRST_WINDOW = 4096
"""Characters that are parsed first: an error costs as much time as there is text before it, because
its line number is counted, and a text may contain thousands of faulty calls."""

_LONGEST_LITERAL = 16
"""Distance from the end at which a fault may be just a word that is cut off."""


class _UnfinishedError(ValueError):
    """JSON that is valid so far, but cut off."""


class _FaultError(ValueError):
    """Invalid JSON."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


def dump(value: object) -> str:
    """Write a value as JSON the way chat templates do."""
    return json.dumps(value, ensure_ascii=False)


def scan_object(text: str, start: int) -> tuple[dict[str, str], int | None]:
    """Return the raw text of each whole member of an object, and where the object ends.

    The end is None if the object doesn't parse; the members before the fault are still there.

    >>> scan_object('call {"name": "f", "arguments": {"a":1}} now', 5)
    ({'name': '"f"', 'arguments': '{"a":1}'}, 40)
    >>> scan_object('{"name": "f", "arguments": {"a":', 0)
    ({'name': '"f"'}, None)
    """
    if not text.startswith("{", start):
        return {}, None
    members, end, _ = scan_up_to_fault(text, start)
    return members, end


def scan_up_to_fault(text: str, start: int) -> tuple[dict[str, str], int | None, int]:
    """Scan as `scan_object` does; also return where valid JSON stops: at its end or an error.

    Where the object is nested too deeply to be read, that is as far as it was looked at.
    """
    length = _FIRST_WINDOW
    while True:
        members: dict[str, str] = {}
        window = text[start : start + length]
        try:
            end = start + _scan_members(window, 0, members)
        except _UnfinishedError:
            if start + length >= len(text):
                return members, None, len(text)
        except RecursionError:
            return members, None, start + len(window)
        except _FaultError as fault:
            return members, None, start + fault.place
        else:
            return members, end, end
        length *= 4


def unclosed_objects(text: str, start: int, end: int) -> set[int]:
    """Return where the objects begin that are open at the end of a stretch of sound JSON.

    Those that more than `MAX_DEPTH` others are nested in count too, for no call is so deep.

    >>> sorted(unclosed_objects('{"a": {"b": {}, "c": {', 0, 22))
    [0, 6, 21]
    """
    unclosed, too_deep = list[int](), set[int]()
    for match in _BRACKET_OR_STRING.finditer(text, start, end):
        if match[0] == "{":
            unclosed.append(match.start())
            if len(unclosed) > MAX_DEPTH:
                too_deep.add(unclosed[-MAX_DEPTH - 1])
        elif match[0] == "}" and unclosed:
            unclosed.pop()
    return {*unclosed, *too_deep}


def _scan_members(text: str, start: int, members: dict[str, str]) -> int:
    pos = _expect(_OPEN, text, start).end()
    if text.startswith("}", pos):
        return pos + 1
    while True:
        key, pos = _decode(text, pos)
        if not isinstance(key, str):
            raise _FaultError("a key must be a string", pos)
        pos = _expect(_COLON, text, pos).end()
        _, end = _decode(text, pos)
        members[key] = text[pos:end]
        after = _expect(_AFTER_MEMBER, text, end)
        pos = after.end()
        if after[1]:
            return pos


def _expect(pattern: re.Pattern[str], text: str, pos: int) -> re.Match[str]:
    match = pattern.match(text, pos)
    if match is None:
        if not text[pos:].strip():
            raise _UnfinishedError(f"expected {pattern.pattern} at {pos}")
        raise _FaultError(f"expected {pattern.pattern} at {pos}", pos)
    return match


def _decode(text: str, pos: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, pos)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated") or error.pos >= len(text) - _LONGEST_LITERAL:
            raise _UnfinishedError(error.msg) from error
        raise _FaultError(error.msg, error.pos) from error


def balanced_end(text: str, start: int) -> int | None:
    """Return where the bracket opened at `start` is closed, strings looked over; None if nowhere.

    >>> balanced_end("f(a=')') + 1", 1)
    8
    """
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text, start):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
            if depth <= 0:
                return match.end()
    return None
