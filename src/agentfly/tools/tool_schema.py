"""From a signature and a docstring to the JSON Schema that a model is shown."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, with_config
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from agentfly.errors import ConfigError
from agentfly.runtime.signature import MISSING, Parameter
from agentfly.tools.json_schema import simplify_schema

Arguments = TypeAdapter[dict[str, Any]]
"""Validates and coerces a call's arguments."""


def arguments_of(tool: str, parameters: Sequence[Parameter]) -> Arguments:
    """Build what validates the arguments that a function takes."""
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
        return  # a sentinel of the author's own; the model simply leaves the argument out


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
