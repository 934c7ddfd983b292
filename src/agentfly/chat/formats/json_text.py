"""JSON in the middle of a model's text: where it ends, and what was meant where it is faulty.

All of it takes linear time whatever the text. Degenerate completions repeat a few characters
thousands of times, and general repair parsers take minutes over those.
"""

import json
import re
from collections.abc import Iterator

_DECODER = json.JSONDecoder()
_OPEN = re.compile(r"\{\s*")
_COLON = re.compile(r"\s*:\s*")
_AFTER_MEMBER = re.compile(r"\s*(?:,\s*|(\}))")

_DOUBLE_QUOTED = r'"(?:[^"\\]++|\\.)*+"'
_SINGLE_QUOTED = r"'(?:[^'\\]++|\\.)*+'"
_BRACKET_OR_STRING = re.compile(rf"{_DOUBLE_QUOTED}?|{_SINGLE_QUOTED}?|[][(){{}}]", re.S)
_TOKEN = re.compile(
    rf"(?P<string>{_DOUBLE_QUOTED}|{_SINGLE_QUOTED})"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)|(?P<colon>:)"
    r"|(?P<word>[^\s\[\]{},:\"']++)|(?P<space>\s++)|(?P<fault>.)",
    re.S,
)
_ESCAPE_OR_QUOTE = re.compile(r'\\(.)|"', re.S)
NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?")
_CLOSER = {"{": "}", "[": "]"}
_WORDS = {
    **{"True": "true", "False": "false", "None": "null"},
    **{"true": "true", "false": "false", "null": "null"},
}

_FIRST_WINDOW = 4096
"""How much of the text is looked at first: an error costs as much time as there is text before it,
for its line is counted, and a text may hold thousands of faulty calls."""

_LONGEST_TOKEN = 16
"""A fault so close to the end may be no more than a word that is cut off."""

MEND_DEPTH = 100
"""What is nested more deeply than this isn't mended: no call is."""


class _UnfinishedError(ValueError):
    """JSON that is sound as far as it goes."""


class _FaultError(ValueError):
    """JSON that is not sound."""

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
    members, end, _ = scan_up_to_fault(text, start)
    return members, end


def scan_up_to_fault(text: str, start: int) -> tuple[dict[str, str], int | None, int]:
    """Do the same, and return how far the text is sound JSON: up to the object's end or a fault.

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

    Those that more than `MEND_DEPTH` others are nested in count too, for no call is so deep.

    >>> sorted(unclosed_objects('{"a": {"b": {}, "c": {', 0, 22))
    [0, 6, 21]
    """
    unclosed, too_deep = list[int](), set[int]()
    for match in _BRACKET_OR_STRING.finditer(text, start, end):
        if match[0] == "{":
            unclosed.append(match.start())
            if len(unclosed) > MEND_DEPTH:
                too_deep.add(unclosed[-MEND_DEPTH - 1])
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
        if error.msg.startswith("Unterminated") or error.pos >= len(text) - _LONGEST_TOKEN:
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


def mend(text: str, start: int) -> tuple[str, int] | None:
    """Return the object that was meant at `start`, as JSON, and where it ends; None if unclear.

    Mended are single quotes, trailing commas, missing or wrong closing brackets, line breaks and
    invalid escapes in strings, bare words, and Python's True, False and None.

    >>> mend("{'a': True, 'b': [1, 2,]", 0)
    ('{"a": true, "b": [1, 2]}', 24)
    """
    pieces: list[str] = []
    end = len(text)
    try:
        for piece, after in _mended_pieces(text, start):
            pieces.append(piece)
            end = after
        value = json.loads("".join(pieces), strict=False)
        return (dump(value), end) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _mended_pieces(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the tokens of one object, each with its end; raise ValueError at nonsense."""
    unclosed: list[str] = []
    comma = ""
    for token in _TOKEN.finditer(text, start):
        kind, end = token.lastgroup, token.end()
        if kind == "close":
            yield _closing(token[0], unclosed), end
            comma = ""
            if not unclosed:
                return
        elif kind == "comma":
            comma = ","
        elif kind != "space":
            yield comma + _mended_token(token), end
            comma = ""
            if kind == "open":
                unclosed.append(_CLOSER[token[0]])
                if len(unclosed) > MEND_DEPTH:
                    raise ValueError("nested too deeply")
    yield "".join(reversed(unclosed)), len(text)


def _closing(bracket: str, unclosed: list[str]) -> str:
    """Close all that was opened within the one that `bracket` closes; nothing if it closes none."""
    if bracket not in unclosed:
        return ""
    closed = ""
    while not closed.endswith(bracket):
        closed += unclosed.pop()
    return closed


def _mended_token(token: re.Match[str]) -> str:
    kind, text = token.lastgroup, token[0]
    if kind == "fault":
        raise ValueError(f"unreadable: {text!r}")
    if kind == "string":
        return f'"{_ESCAPE_OR_QUOTE.sub(_mended_escape, text[1:-1])}"'
    if kind == "word" and not NUMBER.fullmatch(text):
        return _WORDS.get(text, dump(text))
    return text


def _mended_escape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped is None:
        return r"\""
    if escaped == "'":
        return "'"
    return match[0] if escaped in '"\\/bfnrtu' else rf"\\{escaped}"
