"""Reading calls whose arguments are JSON: whole calls as JSON in marks, or a name and its JSON."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from agentfly.chat.formats.call_format import Found, Reading, assemble
from agentfly.chat.formats.call_layout import Layout, placeholder_pattern
from agentfly.chat.formats.json_calls import (
    Arguments,
    CallKeys,
    arguments_at,
    calls_at,
    starts_json,
)
from agentfly.chat.formats.marks import ends, in_section, marked
from agentfly.chat.formats.plain_json import find_calls
from agentfly.chat.formats.quoted_arguments import quoted_arguments_at
from agentfly.types import ToolCall

_NAME_KEY = re.compile(r'"(\w+)": "\{name\}"')
_ARGUMENTS_KEY = re.compile(r'"(\w+)": \{arguments\}')
_ID_KEY = re.compile(r'"(\w+)": "\{id\}"')
_FENCE = re.compile(r"\s*```\w*\s*")

ArgumentsReader = Callable[[str, int, re.Pattern[str]], Arguments]


def json_reader(layout: Layout) -> Callable[[str], Reading]:
    """Return what reads calls with JSON in them.

    <tool_call>{"name": "search", "arguments": {"query": "cats"}}</tool_call>
    [TOOL_CALLS]search[ARGS]{"query": "cats"}
    """
    opening, closing = layout.opening, layout.closing
    section_opening, section_closing = layout.section_marks
    others = filter(None, (opening, section_closing))
    call_ends = ends(close=closing or None, others=[*others])
    keys = _keys(layout.call)
    forms = (layout.call, *layout.also)
    heads = [_head(form, opening) for form in forms if '"{name}"' not in form]
    arguments_from = _arguments_reader(layout)

    def calls_from(text: str, start: int) -> tuple[Sequence[ToolCall], int]:
        head = next(filter(None, (head.match(text, start) for head in heads)), None)
        if head is None and (layout.is_json or starts_json(text, start)):
            calls, end = calls_at(text, start, call_ends, keys=keys)
            as_written = layout.is_json
            return [c if as_written or c.problem else replace(c, repaired=True) for c in calls], end
        arguments = arguments_from(text, head.end() if head else start, call_ends)
        call = arguments.call(_group(head, "name"), id=_id(head))
        return [call], arguments.end

    def find(text: str) -> Iterator[Found]:
        if not opening:
            return find_calls(text, keys=keys)
        if heads or opening in text or not closing or closing not in text:
            return marked(text, opening, closing, calls_from)
        return _without_opening(text, closing, keys)

    def read(text: str) -> Reading:
        found = find(text)
        if section_opening:
            found = in_section(text, section_opening, found)
        return assemble(text, found, drop=tuple(filter(None, (opening, closing, *layout.markup))))

    return read


def _without_opening(text: str, closing: str, keys: CallKeys) -> Iterator[Found]:
    """Find calls whose opening mark was forgotten: only JSON and the closing mark are there."""
    for found in find_calls(text[: text.index(closing)], keys=keys):
        yield replace(found, calls=[replace(call, repaired=True) for call in found.calls])


def _arguments_reader(layout: Layout) -> ArgumentsReader:
    if not layout.quote:
        return arguments_at

    def read(text: str, start: int, call_ends: re.Pattern[str]) -> Arguments:
        return quoted_arguments_at(
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
