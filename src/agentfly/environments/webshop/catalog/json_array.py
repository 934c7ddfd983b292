"""A JSON array read element by element: the full catalog has gigabytes in one array."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from agentfly.environments.webshop.catalog.json_text import not_json, not_text, unreadable_json

_CHUNK = 1 << 20
_LONGEST = 1 << 23
"""Characters of one element. Without an end to it, a broken file would be read to its own end."""
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")
_NO_TEXT = re.compile("[\udc80-\udcff]")
"""Replacement for bytes that are not UTF-8, so that their line can be reported."""


def read_array(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each element with the number of the line where it starts."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        window = _Window(path, file)
        window.take("[")
        closed = window.peek() == "]"
        while not closed:
            window.peek()
            yield window.line, window.element()
            closed = window.take(",]") == "]"


class _Window:
    """The part of the file that is in memory, and how far it is read."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._text = ""
        self._place = 0
        self.line = 1

    def peek(self) -> str:
        """Return the next character that is no space; empty at the end."""
        while True:
            self._go_to(_SPACE.match(self._text, self._place).end())  # type: ignore[union-attr]
            if self._place < len(self._text) or not self._more():
                return self._text[self._place : self._place + 1]

    def take(self, expected: str) -> str:
        """Step over one of these characters."""
        found = self.peek()
        if not found or found not in expected:
            wanted = " or ".join(repr(character) for character in expected)
            problem = f"expected {wanted}, got {found or 'the end'!r}"
            raise not_json(self._path, self.line, problem)
        self._go_to(self._place + 1)
        return found

    def element(self) -> Any:
        """Read one value, and as much of the file as it needs."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                if len(self._text) - self._place > _LONGEST or not self._more():
                    line = self.line + self._text.count("\n", self._place, error.pos)
                    raise not_json(self._path, line, error.msg) from None
            except (ValueError, RecursionError) as error:
                rest = self._text[self._place :]
                raise unreadable_json(self._path, self.line, rest, error) from None
            else:
                self._go_to(end)
                return value

    def _more(self) -> bool:
        chunk = self._file.read(_CHUNK)
        self._text = self._text[self._place :]
        if broken := _NO_TEXT.search(chunk):
            lines = self._text.count("\n") + chunk.count("\n", 0, broken.start())
            raise not_text(self._path, self.line + lines)
        self._text += chunk
        self._place = 0
        return bool(chunk)

    def _go_to(self, place: int) -> None:
        self.line += self._text.count("\n", self._place, place)
        self._place = place
