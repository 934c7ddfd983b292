"""A page as numbered lines, which a model reads and acts on by number.

Page: "Log in" (http://site.test/login)
[1] heading "Log in"
[2] textbox "User" = "bob" (focused)
[3] combobox "Team" = "red" of "red", disabled "blue"
[4] button "Send" (disabled)

A number can also come after the name: `textbox "User" [2] = "bob" (focused)`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

from agentfly.environments.browser.address import MAX_SHOWN_URL

Numbers = Literal["before", "after"]
"""Place of an item's number: before its role, or after its name."""

_LINE = re.compile(
    r'(?:\[(?P<id>\d+)\] ?)?(?P<role>[a-z]+)?(?: ?(?P<name>"(?:[^"\\]|\\.)*"))?'
    r"(?: \[(?P<id_after>\d+)\])?"
    r'(?: = (?P<value>"(?:[^"\\]|\\.)*"))?'
    r'(?: of (?P<options>(?:disabled )?"(?:[^"\\]|\\.)*"(?:, (?:disabled )?"(?:[^"\\]|\\.)*")*))?'
    r"(?: and \d+ more)?(?: \((?P<states>[a-z, ]+)\))?"
)
_OPTION = re.compile(r'(disabled )?("(?:[^"\\]|\\.)*")')
_LINE_BREAKS = {ord(one): f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"}
"""Escapes of the line breaks that JSON may hold as they are."""


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
    disabled_indices: tuple[int, ...] = ()
    """Indices of the options that can't be selected."""
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
            disabled_indices=tuple(given.get("disabled", ())),
            more=int(given.get("more", 0)),
        )

    @property
    def enabled_options(self) -> tuple[str, ...]:
        """Texts of the options that can be selected."""
        off = self.disabled_indices
        return tuple(text for place, text in enumerate(self.options) if place not in off)

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
        parts += [f"of {self._options()}"] if self.options else []
        parts += [f"and {self.more} more"] if self.more else []
        parts += [f"({', '.join(self.states)})"] if self.states else []
        return " ".join(parts)

    def _options(self) -> str:
        return ", ".join(
            f"disabled {quote(text)}" if place in self.disabled_indices else quote(text)
            for place, text in enumerate(self.options)
        )

    def line_within(self, most: int, numbers: Numbers = "before") -> str:
        """Return the item as a line of at most this many characters; its texts are cut for that.

        >>> Item(id=3, role="button", name="a" * 99).line_within(24, "after")
        'button "aaaaa…" [3]'
        """
        item, chars = self, most
        while len(line := item.line(numbers)) > most and chars > 1:
            chars //= 2
            item = self._shortened(chars)
        return shorten(line, most)

    def _shortened(self, chars: int) -> "Item":
        """Return the item with at most this many characters in its name, value and options."""
        ends = accumulate(map(len, self.options))
        options = tuple(one for one, end in zip(self.options, ends, strict=True) if end <= chars)
        return replace(
            self,
            name=shorten(self.name, chars),
            value=None if self.value is None else shorten(self.value, chars),
            options=options,
            disabled_indices=tuple(
                place for place in self.disabled_indices if place < len(options)
            ),
            more=self.more + len(self.options) - len(options),
        )


def shorten(text: str, most: int) -> str:
    """Return a text of at most this many characters, with a sign where it was cut.

    >>> shorten("abcd", 3), shorten("abc", 3)
    ('ab…', 'abc')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quote(text: str) -> str:
    r"""Return text of a page as one line that can't be taken for another one.

    >>> print(quote('two\n[9] button "Pay"'))
    "two\n[9] button \"Pay\""
    """
    return json.dumps(text, ensure_ascii=False).translate(_LINE_BREAKS)


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
    options = _OPTION.findall(found["options"] or "")
    return Item(
        id=int(number),
        role=found["role"] or "text",
        name=json.loads(name) if name else "",
        value=None if value is None else json.loads(value),
        states=tuple(found["states"].split(", ")) if found["states"] else (),
        options=tuple(json.loads(text) for _, text in options),
        disabled_indices=tuple(place for place, (off, _) in enumerate(options) if off),
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
        return f"Page: {name_page(self.title, self.url)}"

    def lines_within(self, chars: int) -> list[str]:
        """Return the lines of all items, each of which fits into a part with its line break."""
        return [
            line if len(line) < chars else item.line_within(chars - 1, self.numbers)
            for item, line in zip(self.items, self.lines, strict=True)
        ]

    def parts(self, chars: int) -> list[tuple[int, int]]:
        """Divide the lines into parts of at most this many characters: first and last + 1."""
        return divide([len(line) + 1 for line in self.lines_within(chars)], chars)

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


def name_page(title: str, url: str) -> str:
    """Return what identifies a page: its title, quoted like all texts of pages, and its address.

    >>> name_page("Log in", "http://site.test/"), name_page("", "http://site.test/")
    ('"Log in" (http://site.test/)', 'http://site.test/')
    """
    url = shorten(url, MAX_SHOWN_URL)
    return f"{quote(title)} ({url})" if title else url


def divide(lengths: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Divide lines, none of which is longer than a part, into consecutive parts.

    >>> divide([4, 4, 4, 9, 1], 9), divide([], 9)
    ([(0, 2), (2, 3), (3, 4), (4, 5)], [(0, 0)])
    """
    parts, start, total = [], 0, 0
    for place, length in enumerate(lengths):
        if total + length > most and place > start:
            parts.append((start, place))
            start, total = place, 0
        total += length
    return [*parts, (start, len(lengths))]
