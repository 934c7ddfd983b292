"""How a call of a tool is written, for a model that wrote it wrongly."""

import json
from collections.abc import Mapping
from typing import Any

from agentfly.types import ToolSpec


def call_form(spec: ToolSpec) -> str:
    """Write a tool as a signature in JSON's types.

    >>> call_form(ToolSpec(name="search", description="Search.", parameters={
    ...     "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 5}},
    ...     "required": ["query"]}))
    'search(query: string, limit: integer = 5)'
    """
    required = spec.parameters.get("required", ())
    properties = spec.parameters.get("properties", {})
    written = [
        f"{name}{'' if name in required else '?'}: {type_name(schema)}"
        if name in required or "default" not in schema
        else f"{name}: {type_name(schema)} = {json.dumps(schema['default'], ensure_ascii=False)}"
        for name, schema in properties.items()
    ]
    return f"{spec.name}({', '.join(written)})"


def type_name(schema: Mapping[str, Any]) -> str:
    """Name a type in one word or a few: `string`, `array of integer`, `"a" | "b"`."""
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(type_name(option) for option in schema["anyOf"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(type_name({**schema, "type": one}) for one in kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {type_name(schema['items'])}"
    return str(kind)
