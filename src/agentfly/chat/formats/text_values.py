r"""Parameters that are written as bare text between tags, without their type.

`<parameter=year>2024</parameter>` may be the number or the string. Text that is JSON is read as
JSON only if writing it back gives the same text, so that nothing is lost:

    2024 → 2024      1.50 → "1.50"      007 → "007"      true → true      [1,2] → "[1,2]"

The tool's schema then decides: `recover_types` turns 2024 back into "2024" where the schema has a
string, and reads `[1,2]` as a list where it has a list.

Some formats write objects and lists as nested tags, never as JSON:

    <city>Rome</city><days><item>1</item><item>2</item></days>

Each of these tags has the same mark before it, which no value contains (MiniMax M3:
`]<]minimax[>[`).
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentfly.chat.formats.json_text import dump
from agentfly.types import ToolCall

_TYPES: dict[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
    "string": str,
}


def value_of(text: str) -> Any:
    """Read one parameter's text: as JSON if that loses nothing, else as a string."""
    try:
        value = json.loads(text, parse_constant=str)  # "NaN" is a word
    except (ValueError, RecursionError):
        return text
    return value if not isinstance(value, str) and dump(value) == text else text


def recover_types(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments that were read from bare text to the types in a tool's schema.

    >>> schema = {"properties": {"zip": {"type": "string"}, "on": {"type": "boolean"}}}
    >>> recover_types({"zip": 90210, "on": "True", "other": 3}, schema)
    {'zip': '90210', 'on': True, 'other': 3}
    """
    properties = schema.get("properties") or {}
    return {
        key: _recovered(value, properties[key]) if key in properties else value
        for key, value in arguments.items()
    }


def _recovered(value: Any, schema: Any) -> Any:
    types = _types_of(schema)
    if not types or _fits(value, types - {"string"}):
        return _with_parts_recovered(value, schema)
    text = text_of(value)
    if "string" in types:
        return None if "null" in types and text == "None" else text
    return next((found for found in _readings(text) if _fits(found, types)), value)


def _with_parts_recovered(value: Any, schema: Any) -> Any:
    if isinstance(value, list) and isinstance(schema, Mapping) and "items" in schema:
        return [_recovered(item, schema["items"]) for item in value]
    if isinstance(value, dict) and isinstance(schema, Mapping):
        return recover_types(value, schema)
    return value


def _readings(text: str) -> Iterator[Any]:
    """Yield what a text may mean: JSON, Python's way of writing it, or nothing at all."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            yield read(text.strip())
    if not text.strip():
        yield from (None, [], {})


def _types_of(schema: Any) -> set[str]:
    """Return the types that a schema allows; empty if it doesn't say."""
    if not isinstance(schema, Mapping):
        return set()
    options = [_types_of(option) for key in ("anyOf", "oneOf") for option in schema.get(key) or ()]
    if options:
        return set().union(*options) if all(options) else set()
    named = schema.get("type")
    if named is None and schema.get("enum"):
        return {_type_name(value) for value in schema["enum"]}
    return {named} if isinstance(named, str) else set(named or ())


def _type_name(value: object) -> str:
    return next(name for name, kind in _TYPES.items() if _is(value, kind))


def _fits(value: object, types: Iterable[str]) -> bool:
    return any(name in _TYPES and _is(value, _TYPES[name]) for name in types)


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    """Return whether a value has a JSON type, where true is no number."""
    return isinstance(value, kind) and (not isinstance(value, bool) or kind is bool)


def text_of(value: object) -> str:
    """Write one parameter's text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else dump(value)


def type_of(value: object) -> str:
    """Return the name that JSON schemas have for a value's type; all numbers are "number"."""
    kinds = ("null", "boolean", "number", "array", "object")
    return next((kind for kind in kinds if isinstance(value, _TYPES[kind])), "string")


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """Return a call's arguments by name; None if they aren't an object, as in a malformed call."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def sole_text(call: ToolCall, parameter: str | None) -> str:
    """Return the text of a call's one parameter, or its raw arguments if it has none such."""
    arguments = arguments_of(call) or {}
    return text_of(arguments[parameter]) if parameter in arguments else call.arguments


ITEM = "item"
"""The tag of a list's items."""


@dataclass(slots=True)
class _Open:
    """A tag that is open."""

    key: str
    begin: int
    """Position where its text begins."""
    children: list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class NestedTags:
    """Reader of nested tags that have one mark before each."""

    mark: str
    tag: re.Pattern[str]

    @classmethod
    def of(cls, parameter: str) -> "NestedTags":
        """Take the mark from the layout of a parameter: the text before `<{key}>`."""
        mark = parameter.partition("<{key}>")[0]
        return cls(mark, re.compile(rf"{re.escape(mark)}<(/?)([^<>\s\"]*+)>"))

    def read(self, text: str, pos: int, stop: int) -> tuple[dict[str, Any], int]:
        """Return the parameters from `pos` on, and where they end: before a tag of another kind.

        `stop` is where the next call begins, which no parameter contains.
        """
        top = _Open("", pos, [])
        unclosed = [top]
        end = pos
        for tag in self.tag.finditer(text, pos, stop):
            if tag[1] and tag[2] != unclosed[-1].key:
                break
            if not tag[1]:
                if len(unclosed) == 1 and text[end : tag.start()].strip():
                    break
                unclosed.append(_Open(tag[2], tag.end(), []))
                continue
            closed = unclosed.pop()
            unclosed[-1].children.append((closed.key, _value(closed, text, tag.start())))
            if len(unclosed) == 1:
                end = tag.end()
        return dict(top.children), end


def _value(tag: _Open, text: str, end: int) -> Any:
    if not tag.children:
        return value_of(text[tag.begin : end])
    if all(key == ITEM for key, _ in tag.children):
        return [value for _, value in tag.children]
    return dict(tag.children)


def write_nested(key: str, value: object, mark: str) -> str:
    """Write a parameter and all that is in it; null is left out."""
    match value:
        case None:
            return ""
        case dict():
            inner = "".join(write_nested(name, part, mark) for name, part in value.items())
        case list():
            inner = "".join(write_nested(ITEM, part, mark) for part in value)
        case _:
            inner = text_of(value)
    return f"{mark}<{key}>{inner}{mark}</{key}>"
