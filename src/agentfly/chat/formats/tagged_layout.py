r"""Reading calls whose parameters are tags around bare text.

    <tool_call>                                     <minimax:tool_call>
    <function=search>                               <invoke name="search">
    <parameter=query>                               <parameter name="query">cats</parameter>
    cats                                            </invoke>
    </parameter>                                    </minimax:tool_call>
    </function>
    </tool_call>

A value ends at the first closing tag that another tag follows, so that a closing tag in a value
does no harm. A parameter, a call or a section that lacks its closing tag is read where it is plain
what was meant.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentfly.chat.formats.call_format import CUT_OFF, Found, Reading, assemble, unreadable
from agentfly.chat.formats.call_layout import Layout, placeholder_pattern
from agentfly.chat.formats.json_calls import excerpt
from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.marks import (
    MIN_PARTIAL,
    end_pattern,
    in_section,
    is_mention,
    partial_length,
)
from agentfly.chat.formats.text_values import NestedTags, value_of
from agentfly.types import ToolCall

_LONGEST_HEADER = 200
"""Maximum characters before a call that are searched for its header."""
_BETWEEN_TAGS = re.compile(r"(?<=>)\s*(?=<)|\n+")


def tagged_reader(layout: Layout) -> Callable[[str], Reading]:
    """Return what reads calls whose parameters are tags."""
    tags = _Tags.of(layout)
    section_opening, _ = layout.section_marks

    def read(text: str) -> Reading:
        found = _Scan(text, tags, layout.expected()).found()
        if section_opening:
            found = in_section(text, section_opening, found)
        return assemble(text, found, drop=(*tags.outer, *tags.tail_marks[1:], *layout.markup))

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tags:
    """The marks of a layout, ready to be looked for."""

    outer: tuple[str, ...]
    """Opening marks before the one that contains the name."""
    inner: str
    """The opening mark before the name."""
    start: re.Pattern[str]
    head: re.Pattern[str]
    """The name, from the inner mark on."""
    parameter: re.Pattern[str]
    closing: re.Pattern[str]
    """End of a value: a closing tag with another tag behind it."""
    following: re.Pattern[str]
    """Marks that can't be part of a value without a closing tag."""
    wrapped: bool
    """Whether values are on lines of their own."""
    tail_marks: tuple[str, ...]
    tail: re.Pattern[str]
    ends: re.Pattern[str]
    nested: NestedTags | None
    header: re.Pattern[str] | None

    @classmethod
    def of(cls, layout: Layout) -> "_Tags":
        before, _, behind_name = layout.call.partition("{name}")
        head, _, tail = behind_name.partition("{parameters}")
        *outer, inner = _marks(before)
        tail_marks = tuple(_marks(tail))
        opening, _, closing = layout.parameter.partition("{value}")
        first = opening.strip().partition("{")[0]
        section_end = tuple(filter(None, layout.section_marks[1:]))
        following = "|".join(map(re.escape, (first, *tail_marks, *outer, inner, *section_end)))
        starts = [re.escape(inner), *map(re.escape, outer[-1:])]
        if outer:
            starts.insert(0, rf"{re.escape(outer[-1])}\s*+{re.escape(inner)}")
        closing_mark = re.escape(closing.strip().replace("{key}", ""))
        return cls(
            outer=tuple(outer),
            inner=inner,
            start=re.compile("|".join(starts)),
            head=re.compile(placeholder_pattern(f"{{name}}{head}".rstrip())),
            parameter=re.compile(placeholder_pattern(opening.rstrip("\n"))),
            closing=re.compile(rf"{closing_mark}(?=\s*(?:{following}|\Z))"),
            following=re.compile(following),
            wrapped=opening.endswith("\n"),
            tail_marks=tail_marks,
            tail=re.compile(r"\s*" + r"\s*".join(f"({re.escape(mark)})?" for mark in tail_marks)),
            ends=end_pattern(close=tail_marks[-1], others=[*outer, inner, *section_end]),
            nested=NestedTags.of(layout.parameter) if layout.nested else None,
            header=re.compile(placeholder_pattern(layout.header) + r"\Z")
            if layout.header
            else None,
        )


def _marks(text: str) -> list[str]:
    """Split a text at line breaks and between tags."""
    return [mark for mark in _BETWEEN_TAGS.split(text.strip()) if mark]


@dataclass(slots=True)
class _Parameters:
    values: dict[str, Any]
    end: int
    all_closed: bool


class _Scan:
    """One reading of one text; what was found further on is remembered, so that it is linear."""

    def __init__(self, text: str, tags: _Tags, expected: str) -> None:
        self._text = text
        self._tags = tags
        self._expected = expected
        self._next_closing: re.Match[str] | None = None
        self._searched_from = len(text) + 1
        self._dead_ends: set[int] = set()
        """Places from which parameters were read and no call's end came."""

    def found(self) -> Iterator[Found]:
        text, end = self._text, 0
        while start := self._tags.start.search(text, end):
            call, end = self._call_at(start)
            closed = text.endswith(self._tags.tail_marks[-1], start.end(), end)
            if call.problem and not closed and is_mention(text, start.start(), self._body(start)):
                end = start.end()
            else:
                yield Found(self._begin(start.start()), end, [call])
        partial = max(partial_length(text, mark) for mark in (*self._tags.outer, self._tags.inner))
        if partial >= MIN_PARTIAL and len(text) - partial >= end:
            yield Found(len(text) - partial, len(text), [unreadable(CUT_OFF, text[-partial:])])

    def _begin(self, start: int) -> int:
        """Return where a call's header begins, or the call itself if it has none."""
        if self._tags.header is None:
            return start
        before = self._text[max(0, start - _LONGEST_HEADER) : start]
        header = self._tags.header.search(before)
        return start - len(before) + header.start() if header else start

    def _body(self, start: re.Match[str]) -> int:
        """Return where prose would begin if the mark were only mentioned: behind its name."""
        head = self._tags.head.match(self._text, start.end()) if self._is_inner(start) else None
        return head.end() if head else start.end()

    def _is_inner(self, start: re.Match[str]) -> bool:
        return start[0].endswith(self._tags.inner)

    def _call_at(self, start: re.Match[str]) -> tuple[ToolCall, int]:
        tags = self._tags
        head = tags.head.match(self._text, start.end()) if self._is_inner(start) else None
        if head is None or not head["name"]:
            return self._malformed(start)
        name = head["name"].strip()
        passed = list[int]()
        parameters = self._parameters(head.end(), passed)
        tail = tags.tail.match(self._text, parameters.end)
        if tail is None or not any(tail.groups()):
            self._dead_ends.update(passed)
            return self._malformed(start, name)
        begins_whole = not tags.outer or start[0].startswith(tags.outer[-1])
        whole = parameters.all_closed and all(tail.groups()) and begins_whole
        arguments = dump(parameters.values)
        return ToolCall(id="", name=name, arguments=arguments, repaired=not whole), tail.end()

    def _parameters(self, pos: int, passed: list[int]) -> _Parameters:
        """Read parameters; note in `passed` where each of them ended."""
        tags, text = self._tags, self._text
        if tags.nested:
            another = tags.start.search(text, pos)
            end = another.start() if another else len(text)
            return _Parameters(*tags.nested.read(text, pos, end), all_closed=True)
        found = _Parameters({}, pos, all_closed=True)
        while found.end not in self._dead_ends and (
            opening := tags.parameter.match(text, found.end)
        ):
            begin = opening.end()
            if tags.wrapped and text.startswith("\n", begin):
                begin += 1
            closing = self._closing_after(begin)
            limit = closing or tags.following.search(text, begin)
            stop = limit.start() if limit else len(text)
            value = text[begin:stop]
            value = value.removesuffix("\n") if tags.wrapped or not closing else value
            found.values[opening["key"].strip()] = _value(value, opening)
            found.end = closing.end() if closing else stop
            found.all_closed = found.all_closed and closing is not None
            passed.append(found.end)
        return found

    def _closing_after(self, pos: int) -> re.Match[str] | None:
        """Return the next closing tag of a value, searched for only once."""
        known = self._next_closing
        is_known = self._searched_from <= pos and (known is None or known.start() >= pos)
        if not is_known:
            self._next_closing = self._tags.closing.search(self._text, pos)
            self._searched_from = pos
        return self._next_closing

    def _malformed(self, start: re.Match[str], name: str = "") -> tuple[ToolCall, int]:
        end = self._tags.ends.search(self._text, start.end())
        body = self._text[start.start() : end.start() if end else len(self._text)]
        problem = f"{self._expected}, got {excerpt(body)}" if end else CUT_OFF
        going_on = len(self._text) if end is None else end.end() if end.lastgroup else end.start()
        return unreadable(problem, body, name=name), going_on


def _value(text: str, opening: re.Match[str]) -> Any:
    """Read a value: as the tag says, if it says whether it is a string, else as far as is safe."""
    said = opening.groupdict()
    if "string" not in said and "type" not in said:
        return value_of(text)
    if said.get("string") == "true" or said.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
