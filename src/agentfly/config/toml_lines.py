"""Quotes of a TOML file's lines in error messages.

line 5 | lr = "fast"
         ^^
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?")
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_ASSIGNMENT = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")
_SHOWN = 100
"""Maximum number of characters of a line that are shown after the caret."""
_MULTILINE = ('"""', "'''")


def quote_line(text: str, number: int, column: int, length: int = 1) -> str:
    r"""Return a line with a caret below, counted from 1.

    >>> print(quote_line("a = 1\nb = = 2", 2, 5))
    line 2 | b = = 2
                 ^
    """
    lines = text.splitlines() or [""]
    line = lines[min(number, len(lines)) - 1].rstrip()
    before = f"line {number} | "
    end = column + length + _SHOWN
    line = line if len(line) <= end else f"{line[:end]}…"
    return f"{before}{line}\n{' ' * (len(before) + column - 1)}{'^' * max(1, length)}"


def quote_error(text: str, error: tomllib.TOMLDecodeError) -> str:
    """Return the line of a syntax error, with a caret below."""
    place = re.search(r"at line (\d+), column (\d+)", str(error))
    if place:
        return quote_line(text, int(place[1]), int(place[2]))
    lines = text.rstrip().splitlines() or [""]
    return quote_line(text, len(lines), len(lines[-1]) + 1)


def quote_key(text: str, key: str) -> str | None:
    r"""Return the line in which a dotted key is set; None if the file does not set it.

    A key inside a value, such as `train.betas.1`, is found by the key of the value.

    >>> print(quote_key("[train]\nsteps = 3\nlr = 'fast'", "train.lr"))
    line 3 | lr = 'fast'
             ^^
    """
    path = key.split(".")
    places = {place.path: place for place in _places(text)}
    for end in range(len(path), 0, -1):
        place = places.get(tuple(path[:end]))
        if place is not None and (end == len(path) or not place.is_header):
            return quote_line(text, place.line, place.column, place.length)
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    path: tuple[str, ...]
    line: int
    column: int
    length: int
    is_header: bool


def _places(text: str) -> Iterator[_Place]:
    """Yield every key and table header of a text, in their order."""
    table: tuple[str, ...] = ()
    counts: dict[tuple[str, ...], int] = {}
    for number, line in _plain_lines(text):
        header, assignment = _HEADER.match(line), _ASSIGNMENT.match(line)
        if header:
            path = tuple(_split(header[2]))
            if header[1] == "[[":
                counts[path] = counts.get(path, -1) + 1
            table = tuple(_numbered(path, counts))
            yield _Place(table, number, header.start(2) + 1, len(header[2]), is_header=True)
        elif assignment:
            path, length = (*table, *_split(assignment[1])), len(assignment[1])
            yield _Place(path, number, assignment.start(1) + 1, length, is_header=False)


def _plain_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not inside a text of several lines, with their numbers."""
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is None:
            yield number, line
        for mark in _MULTILINE if inside is None else [inside]:
            if line.count(mark) % 2:
                inside = None if inside else mark
                break


def _numbered(path: Sequence[str], counts: dict[tuple[str, ...], int]) -> Iterator[str]:
    for end, name in enumerate(path, start=1):
        yield name
        if tuple(path[:end]) in counts:
            yield str(counts[tuple(path[:end])])


def _split(key: str) -> list[str]:
    return [part.strip().strip("\"'") for part in key.split(".")]
