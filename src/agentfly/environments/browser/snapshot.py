"""A page as numbered lines, which a model reads and acts on by number.

Page: Log in (http://site.test/login)
[1] heading "Log in"
[2] textbox "User" = "bob" (focused)
[3] combobox "Team" = "red" of "red", "blue"
[4] button "Send" (disabled)

A number can also come after the name: `textbox "User" [2] = "bob" (focused)`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Numbers = Literal["before", "after"]
"""Place of an item's number: before its role, or after its name."""

_LINE = re.compile(
    r'(?:\[(?P<id>\d+)\] ?)?(?P<role>[a-z]+)?(?: ?(?P<name>"(?:[^"\\]|\\.)*"))?'
    r"(?: \[(?P<id_after>\d+)\])?"
    r'(?: = (?P<value>"(?:[^"\\]|\\.)*"))?'
    r'(?: of (?P<options>"(?:[^"\\]|\\.)*"(?:, "(?:[^"\\]|\\.)*")*))?'
    r"(?: and \d+ more)?(?: \((?P<states>[a-z, ]+)\))?"
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a page: something to read or to use."""

    id: int
    role: str
    name: str = ""
    value: str | None = None
    states: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Texts of a list's options."""
    more: int = 0
    """Number of options that are not listed."""

    @classmethod
    def from_page(cls, given: Mapping[str, Any]) -> "Item":
        """Read an item as the script in the page lists it."""
        value = given.get("value")
        return cls(
            id=int(given["id"]),
            role=str(given["role"]),
            name=str(given.get("name", "")),
            value=None if value is None else str(value),
            states=tuple(given.get("states", ())),
            options=tuple(given.get("options", ())),
            more=int(given.get("more", 0)),
        )

    def pointer(self, numbers: Numbers = "before") -> str:
        """Return the part of its line that identifies it: number, role and name.

        >>> Item(id=3, role="textbox", name="User", value="bob").pointer("after")
        'textbox "User" [3]'
        """
        parts = [] if self.role == "text" else [self.role]
        parts += [quote(self.name)] if self.name else []
        parts.insert(0 if numbers == "before" else len(parts), f"[{self.id}]")
        return " ".join(parts)

    def line(self, numbers: Numbers = "before") -> str:
        """Return the item as text.

        >>> Item(id=3, role="textbox", name="User", value="bob", states=("focused",)).line()
        '[3] textbox "User" = "bob" (focused)'
        """
        parts = [self.pointer(numbers)]
        parts += [] if self.value is None else ["=", quote(self.value)]
        parts += ["of " + ", ".join(map(quote, self.options))] if self.options else []
        parts += [f"and {self.more} more"] if self.more else []
        parts += [f"({', '.join(self.states)})"] if self.states else []
        return " ".join(parts)


def quote(text: str) -> str:
    r"""Return text of a page as one line that can't be taken for another one.

    >>> print(quote('two\n[9] button "Pay"'))
    "two\n[9] button \"Pay\""
    """
    return json.dumps(text, ensure_ascii=False)


def read_items(text: str) -> list[Item]:
    r"""Read the items of an observation back; players see pages as models do.

    >>> read_items('Page: x\n[4] combobox "A" = "b" of "b", "c" (disabled)')[0].options
    ('b', 'c')
    >>> [item.id for item in read_items('"or" [7]\nbutton "OK" [8] (focused)')]
    [7, 8]
    """
    return [item for line in text.split("\n") if (item := _read_line(line)) is not None]


def _read_line(line: str) -> Item | None:
    found = _LINE.fullmatch(line.removeprefix("+ "))
    number = found and (found["id"] or found["id_after"])
    if found is None or number is None:
        return None
    name, value = found["name"], found["value"]
    options = _STRING.findall(found["options"] or "")
    return Item(
        id=int(number),
        role=found["role"] or "text",
        name=json.loads(name) if name else "",
        value=None if value is None else json.loads(value),
        states=tuple(found["states"].split(", ")) if found["states"] else (),
        options=tuple(json.loads(one) for one in options),
    )


@dataclass(frozen=True)
class Snapshot:
    """All items of a page at one moment."""

    url: str
    title: str
    document: str
    """Random key of the document: the numbers of its items mean nothing in another one."""
    items: tuple[Item, ...]
    cut: bool
    """Whether the page has more items than can be listed."""
    numbers: Numbers = "before"

    @classmethod
    def from_page(cls, given: Mapping[str, Any], numbers: Numbers = "before") -> "Snapshot":
        """Read what the script in the page lists."""
        return cls(
            url=str(given["url"]),
            title=str(given["title"]),
            document=str(given["document"]),
            items=tuple(Item.from_page(one) for one in given["items"]),
            cut=bool(given["cut"]),
            numbers=numbers,
        )

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Lines of all items."""
        return tuple(item.line(self.numbers) for item in self.items)

    @property
    def header(self) -> str:
        """Title and address."""
        return f"Page: {self.title} ({self.url[:200]})" if self.title else f"Page: {self.url[:200]}"

    def parts(self, chars: int) -> list[tuple[int, int]]:
        """Divide the lines into parts of at most this many characters: first and last + 1."""
        return divide([len(line) + 1 for line in self.lines], chars)

    def changes(self, before: "Snapshot") -> str:
        """Return what is different from an earlier snapshot of the same document.

        A plus begins a line that is new or different, a minus the numbers of those that are gone.
        """
        old = {item.id: item for item in before.items}
        new = [item.line(self.numbers) for item in self.items if old.get(item.id) != item]
        gone = sorted(old.keys() - {item.id for item in self.items})
        lines = [f"+ {line}" for line in new]
        lines += [f"- {', '.join(f'[{one}]' for one in gone)}"] if gone else []
        return "\n".join(lines) or "Nothing changed."


def divide(lengths: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Divide lines into consecutive parts; a line that is too long is a part by itself.

    >>> divide([4, 4, 4, 20, 1], 9), divide([], 9)
    ([(0, 2), (2, 3), (3, 4), (4, 5)], [(0, 0)])
    """
    parts, start, total = [], 0, 0
    for place, length in enumerate(lengths):
        if total + length > most and place > start:
            parts.append((start, place))
            start, total = place, 0
        total += length
    return [*parts, (start, len(lengths))]
