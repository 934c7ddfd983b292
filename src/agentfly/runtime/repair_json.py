"""Repairing a JSON object that a model wrote with the usual mistakes.

One repairer serves the whole project: call formats that find JSON in a completion, and tools that
get arguments as text. It takes linear time and never raises. Degenerate completions repeat a few
characters thousands of times, and general repair parsers take minutes over some of these. It
doesn't guess: an object whose meaning is unclear, such as one with a quote too many or a string
without an end, is not repaired.
"""

import json
import re
from collections.abc import Iterator

MAX_DEPTH = 100
"""Maximum nesting of an object that is repaired; no call is nested more deeply."""

DOUBLE_QUOTED = r'"(?:[^"\\]++|\\.)*+"'
SINGLE_QUOTED = r"'(?:[^'\\]++|\\.)*+'"
NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?")

_TOKEN = re.compile(
    rf"(?P<string>{DOUBLE_QUOTED}|{SINGLE_QUOTED})"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)|(?P<colon>:)"
    r"|(?P<word>[^\s\[\]{},:\"']++)|(?P<space>\s++)|(?P<fault>.)",
    re.S,
)
_ESCAPE_OR_QUOTE = re.compile(r'\\(.)|"', re.S)
_CLOSER = {"{": "}", "[": "]"}
_WORDS = {
    **{"True": "true", "False": "false", "None": "null"},
    **{"true": "true", "false": "false", "null": "null"},
}


def repair_object(text: str, start: int) -> tuple[str, int] | None:
    """Return the object at `start` as valid JSON, and where it ends; None if it is unclear.

    Repaired are single quotes, trailing commas, missing or wrong closing brackets, line breaks and
    invalid escapes in strings, bare words, and Python's True, False and None.

    >>> repair_object("{'a': True, 'b': [1, 2,]", 0)
    ('{"a": true, "b": [1, 2]}', 24)
    """
    pieces: list[str] = []
    end = len(text)
    try:
        for piece, after in _repaired_pieces(text, start):
            pieces.append(piece)
            end = after
        value = json.loads("".join(pieces), strict=False)
        return (json.dumps(value, ensure_ascii=False), end) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _repaired_pieces(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the tokens of one object, each with its end; raise ValueError if one is unreadable."""
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
            yield comma + _repaired_token(token), end
            comma = ""
            if kind == "open":
                unclosed.append(_CLOSER[token[0]])
                if len(unclosed) > MAX_DEPTH:
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


def _repaired_token(token: re.Match[str]) -> str:
    kind, text = token.lastgroup, token[0]
    if kind == "fault":
        raise ValueError(f"unreadable: {text!r}")
    if kind == "string":
        return f'"{_ESCAPE_OR_QUOTE.sub(_repaired_escape, text[1:-1])}"'
    if kind == "word" and not NUMBER.fullmatch(text):
        return _WORDS.get(text) or json.dumps(text, ensure_ascii=False)
    return text


def _repaired_escape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped is None:
        return r"\""
    if escaped == "'":
        return "'"
    return match[0] if escaped in '"\\/bfnrtu' else rf"\\{escaped}"
