"""JSON Schema of a tool: made from a signature, simplified for the model, and as a signature.

Simplifying makes a schema plain enough for small models and chat templates: titles are removed,
definitions are inlined, and `X | None` becomes a list of types.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, with_config
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from agentfly.errors import ConfigError
from agentfly.runtime.signature import MISSING, Parameter
from agentfly.types import ToolSpec

Arguments = TypeAdapter[dict[str, Any]]
"""Validator that checks and coerces a call's arguments."""


def arguments_of(tool: str, parameters: Sequence[Parameter]) -> Arguments:
    """Build the validator of a function's arguments."""
    for parameter in parameters:
        _require_json_type(tool, parameter)
    return arguments_from_types(
        {
            p.name: p.annotation if p.default is MISSING else NotRequired[p.annotation]
            for p in parameters
        }
    )


def arguments_from_types(types: Mapping[str, Any], *, open_ended: bool = False) -> Arguments:
    """Build a validator of named values; `NotRequired[...]` marks those that may be left out."""
    return cast(Arguments, TypeAdapter(typed_dict(types, open_ended=open_ended)))


def typed_dict(types: Mapping[str, Any], *, open_ended: bool = False) -> Any:
    """Make a type of named values; an open-ended one takes other names too."""
    # Not a model, in which `schema`, `from` or `_id` could not be names.
    fields = TypedDict("Arguments", dict(types))  # type: ignore[misc] # noqa: UP013
    extra: Literal["allow", "forbid"] = "allow" if open_ended else "forbid"
    return with_config(ConfigDict(extra=extra, coerce_numbers_to_str=True))(fields)


def parameters_schema(
    arguments: Arguments, parameters: Sequence[Parameter], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    """Describe the arguments as JSON Schema, in the form that OpenAI and Hugging Face take."""
    schema = arguments.json_schema()
    for parameter in parameters:
        shown = schema["properties"][parameter.name]
        if parameter.name in descriptions:
            shown.setdefault("description", descriptions[parameter.name])
        if parameter.default is not MISSING and parameter.default is not None:
            _show_default(shown, parameter.default)
    return simplify_schema(schema)


def _show_default(schema: dict[str, Any], default: object) -> None:
    try:
        schema["default"] = to_jsonable_python(default)
    except PydanticSerializationError:
        return  # a sentinel, which the model can't write: it leaves the argument out


def _require_json_type(tool: str, parameter: Parameter) -> None:
    if parameter.annotation is MISSING:
        raise ConfigError(
            f"parameter {parameter.name!r} of tool {tool!r} has no annotation: "
            f"write its type, for example `{parameter.name}: str`"
        )
    try:
        TypeAdapter(parameter.annotation).json_schema()
    except PydanticUserError as error:
        raise ConfigError(
            f"parameter {parameter.name!r} of tool {tool!r} has the type "
            f"{parameter.annotation!r}, which a model can't write as JSON: use str, int, float, "
            "bool, list, dict, Literal, Enum, a dataclass or a pydantic model"
        ) from error


_OF_ONE = ("items", "additionalProperties", "contains", "not")
_OF_LIST = ("anyOf", "oneOf", "allOf", "prefixItems")
_OF_NAMED = ("properties", "patternProperties")
_NOISE = ("title", "$defs", "definitions", "$schema")
_REFERENCES = ("#/$defs/", "#/definitions/")


def simplify_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an equivalent schema of type `object` without redundant parts.

    >>> simplify_schema({"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}},
    ...                  "$defs": {"N": {"type": "integer", "title": "N"}}})
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}}
    """
    simplifier = _Simplifier({**schema.get("definitions", {}), **schema.get("$defs", {})})
    plain = {"type": "object", "properties": {}, **simplifier.simplify(schema, inside=())}
    definitions = simplifier.recursive_definitions()
    return {**plain, "$defs": definitions} if definitions else plain


class _Simplifier:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._recursive: dict[str, Any] = {}

    def simplify(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        """Simplify a schema that is inside the named definitions."""
        name = self._referred(schema)
        if name is None:
            return _simplified(self._with_simple_parts(schema, inside))
        if name in inside:
            self._recursive.setdefault(name, None)
            return {"$ref": f"#/$defs/{name}"}
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        return self.simplify({**self._definitions[name], **siblings}, (*inside, name))

    def recursive_definitions(self) -> dict[str, Any]:
        """Simplify the definitions that contain themselves, and can't be inlined."""
        while todo := [name for name, schema in self._recursive.items() if schema is None]:
            for name in todo:
                self._recursive[name] = self.simplify(self._definitions[name], (name,))
        return self._recursive

    def _referred(self, schema: Mapping[str, Any]) -> str | None:
        reference = str(schema.get("$ref", ""))
        for prefix in _REFERENCES:
            if reference.removeprefix(prefix) in self._definitions:
                return reference.removeprefix(prefix)
        return None

    def _with_simple_parts(
        self, schema: Mapping[str, Any], inside: tuple[str, ...]
    ) -> dict[str, Any]:
        def part(value: object) -> object:
            return self.simplify(value, inside) if isinstance(value, Mapping) else value

        plain: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _OF_ONE:
                plain[key] = part(value)
            elif key in _OF_LIST:
                plain[key] = [part(entry) for entry in value]
            elif key in _OF_NAMED:
                plain[key] = {name: part(entry) for name, entry in value.items()}
            elif key not in _NOISE:
                plain[key] = value
        return plain


def _simplified(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]  # an invented argument is refused when it is validated
    if schema.get("default", ...) is None:
        del schema["default"]  # an argument without a value is left out
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    return _list_of_types(schema)


def _list_of_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Write a union of plain types, or of one type and null, as `{"type": [...]}`."""
    options = schema.get("anyOf", [])
    if not options or not all(isinstance(option.get("type"), str) for option in options):
        return schema
    detailed = [option for option in options if len(option) > 1]
    if detailed and (len(options) > 2 or {"type": "null"} not in options):
        return schema
    merged = {**(detailed[0] if detailed else {}), **schema}
    del merged["anyOf"]
    if "enum" in merged:
        merged["enum"] = [*merged["enum"], None]
    return {**merged, "type": [option["type"] for option in options]}


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
