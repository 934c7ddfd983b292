"""Tools made of a JSON Schema and a function, without reading a signature."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import Field

from agentfly.errors import ConfigError
from agentfly.tools.function import DEFAULT_SECONDS, FunctionTool
from agentfly.tools.tool_schema import Arguments, arguments_from_types, simplify_schema, typed_dict
from agentfly.types import ToolSpec

_SIMPLE: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": None,
}
_LENGTHS = {"minLength": "min_length", "maxLength": "max_length"}
_COUNTS = {"minItems": "min_length", "maxItems": "max_length"}
_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
_CONSTRAINTS = {"string": _LENGTHS, "array": _COUNTS, "integer": _BOUNDS, "number": _BOUNDS}


def tool_from_schema(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    function: Callable[..., Any],
    *,
    timeout: float = DEFAULT_SECONDS,
    max_length: int | None = None,
) -> FunctionTool[..., Any]:
    """Make a tool of a JSON Schema and a function that takes the arguments by name.

    Types, enums, bounds, nested objects and lists are checked and coerced before the call; the rest
    of JSON Schema (`not`, `if`, ...) is shown to the model and left to the function.

    >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    >>> tool_from_schema("double", "Double it.", schema, lambda n: 2 * n).spec.name
    'double'
    """
    if parameters.get("type", "object") != "object":
        raise ConfigError(
            f"the schema of tool {name!r} must be of type 'object', got {parameters['type']!r}"
        )
    plain = simplify_schema(parameters)
    return FunctionTool(
        function=function,
        spec=ToolSpec(name=name, description=description, parameters=plain),
        arguments=_arguments(plain),
        timeout=timeout,
        max_length=max_length,
    )


def _arguments(schema: Mapping[str, Any]) -> Arguments:
    return arguments_from_types(_types(schema), open_ended="additionalProperties" in schema)


def _types(schema: Mapping[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    kinds = {name: _type(part) for name, part in schema.get("properties", {}).items()}
    return {name: kind if name in required else NotRequired[kind] for name, kind in kinds.items()}


def _type(schema: Mapping[str, Any]) -> Any:
    """Return the type that pydantic checks for a schema; Any for unusual ones."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return Union[tuple(_type(option) for option in options)]  # noqa: UP007 - made at run time
    kind = schema.get("type")
    if isinstance(kind, list):
        return Union[tuple(_type({**schema, "type": one}) for one in kind)]  # noqa: UP007
    return _constrained(_unconstrained(kind, schema), kind, schema)


def _unconstrained(kind: object, schema: Mapping[str, Any]) -> Any:
    if kind == "array":
        return list[_type(schema.get("items") or {})]  # type: ignore[misc]
    if kind == "object" and "properties" in schema:
        return typed_dict(_types(schema), open_ended=True)
    if kind == "object":
        values = schema.get("additionalProperties")
        return dict[str, _type(values) if isinstance(values, Mapping) else Any]  # type: ignore[misc]
    return _SIMPLE.get(str(kind), Any)


def _constrained(base: Any, kind: object, schema: Mapping[str, Any]) -> Any:
    known = _CONSTRAINTS.get(str(kind), {})
    limits = {known[key]: value for key, value in schema.items() if key in known}
    return Annotated[base, Field(**limits)] if limits else base
