"""Making a JSON Schema plain enough for small models and for chat templates that read it.

Titles go, definitions are written where they are used, `X | None` becomes a list of types.
"""

from collections.abc import Mapping
from typing import Any

_OF_ONE = ("items", "additionalProperties", "contains", "not")
_OF_LIST = ("anyOf", "oneOf", "allOf", "prefixItems")
_OF_NAMED = ("properties", "patternProperties")
_NOISE = ("title", "$defs", "definitions", "$schema")
_REFERENCES = ("#/$defs/", "#/definitions/")


def simplify_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same schema of type `object`, without what a reader can do without.

    >>> simplify_schema({"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}},
    ...                  "$defs": {"N": {"type": "integer", "title": "N"}}})
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}}
    """
    tidier = _Tidier({**schema.get("definitions", {}), **schema.get("$defs", {})})
    plain = {"type": "object", "properties": {}, **tidier.tidy(schema, inside=())}
    definitions = tidier.recursive_definitions()
    return {**plain, "$defs": definitions} if definitions else plain


class _Tidier:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._recursive: dict[str, Any] = {}

    def tidy(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        """Tidy a schema found inside the definitions named."""
        name = self._referred(schema)
        if name is None:
            return _simplified(self._with_tidy_parts(schema, inside))
        if name in inside:
            self._recursive.setdefault(name, None)
            return {"$ref": f"#/$defs/{name}"}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return self.tidy({**self._definitions[name], **beside}, (*inside, name))

    def recursive_definitions(self) -> dict[str, Any]:
        """Tidy the definitions that contain themselves, and can't be written in place."""
        while todo := [name for name, schema in self._recursive.items() if schema is None]:
            for name in todo:
                self._recursive[name] = self.tidy(self._definitions[name], (name,))
        return self._recursive

    def _referred(self, schema: Mapping[str, Any]) -> str | None:
        reference = str(schema.get("$ref", ""))
        for prefix in _REFERENCES:
            if reference.removeprefix(prefix) in self._definitions:
                return reference.removeprefix(prefix)
        return None

    def _with_tidy_parts(
        self, schema: Mapping[str, Any], inside: tuple[str, ...]
    ) -> dict[str, Any]:
        def part(value: object) -> object:
            return self.tidy(value, inside) if isinstance(value, Mapping) else value

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
        del schema["additionalProperties"]  # the model is told when it makes an argument up
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
