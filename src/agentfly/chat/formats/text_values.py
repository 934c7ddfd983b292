"""Parameters that are written as bare text between tags, with nothing to say what type they have.

`<parameter=year>2024</parameter>` may be the number or the string. A text that is JSON is read as
such, but only where writing it back gives the same text, so that nothing is lost:

    2024 → 2024      1.50 → "1.50"      007 → "007"      true → true      [1,2] → "[1,2]"

The tool's schema then says what was meant: `recover_types` turns 2024 back into "2024" where a
string is wanted, and reads `[1,2]` as a list where a list is.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
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
    """Read one parameter's text: as JSON if that loses nothing, otherwise as a string."""
    try:
        value = json.loads(text, parse_constant=str)  # "NaN" is a word
    except (ValueError, RecursionError):
        return text
    return value if not isinstance(value, str) and dump(value) == text else text


def recover_types(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give arguments that were read from bare text the types that a tool's schema asks for.

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
    """Tell a value's type as JSON has it, where true is no number."""
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
