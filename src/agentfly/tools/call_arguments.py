"""Arguments of a tool call: parsed and validated, or refused with advice for the model."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentfly.runtime.names import suggestion
from agentfly.runtime.repair_json import repair_object
from agentfly.tools.tool_schema import Arguments, call_form, type_name
from agentfly.types import ToolResult, ToolSpec, ToolStatus

MAX_SHOWN_PROBLEMS = 8
MAX_SHOWN_VALUE = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArguments:
    """Arguments of a call, ready for the function."""

    values: dict[str, Any]
    repaired: bool


def read_arguments(text: str, arguments: Arguments, spec: ToolSpec) -> ReadArguments | ToolResult:
    """Parse, repair, validate and coerce; return a result with the reason if a call can't run."""
    found = _object_in(text)
    if found is None:
        return _refusal(spec, [f"they must be one JSON object, got {_shown(text)}"])
    values, repaired = found
    try:
        validated = _validated(values, arguments)
    except ValidationError as error:
        return _refusal(spec, _problems(error, spec))
    return ReadArguments(values=validated, repaired=repaired)


def _object_in(text: str) -> tuple[dict[str, Any], bool] | None:
    """Return the object, and whether it had to be repaired."""
    if not text.strip():
        return {}, False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _repaired(text)
        return (value, True) if isinstance(value, dict) else None
    if isinstance(value, str):
        # An object that was encoded twice, as a string.
        inner = _object_in(value) if value.lstrip().startswith("{") else None
        return (inner[0], True) if inner else None
    return (value, False) if isinstance(value, dict) else None


def _repaired(text: str) -> object:
    with suppress(ValueError, RecursionError):
        # Line breaks inside a string are the most common mistake: text around it stays as it is.
        return json.loads(text, strict=False)
    before, brace, _ = text.partition("{")
    if not brace or set(before) & set('["'):
        return None
    found = repair_object(text, len(before))
    # Two objects don't say which of them is meant.
    return json.loads(found[0]) if found and "{" not in text[found[1] :] else None


def _validated(values: dict[str, Any], arguments: Arguments) -> dict[str, Any]:
    try:
        return arguments.validate_python(values)
    except ValidationError as error:
        read_again = _with_json_strings_read(values, error)
        if read_again == values:
            raise
    return arguments.validate_python(read_again)


def _with_json_strings_read(values: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """Parse rejected strings as JSON: call formats in XML have no other way to write a list."""
    rejected = {str(problem["loc"][0]) for problem in error.errors() if problem["loc"]}
    return {
        name: _json_or_same(value) if name in rejected and isinstance(value, str) else value
        for name, value in values.items()
    }


def _json_or_same(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _problems(error: ValidationError, spec: ToolSpec) -> list[str]:
    details = error.errors(include_url=False, include_context=False)
    problems = list(_described(details, spec.parameters))
    more = len(problems) - MAX_SHOWN_PROBLEMS
    return [*problems[:MAX_SHOWN_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]


def _described(problems: list[ErrorDetails], schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties", {})
    for problem in problems:
        path = ".".join(str(step) for step in problem["loc"])
        match problem["type"]:
            case "missing" if path in properties:
                yield f"{path}: missing, expected {type_name(properties[path])}"
            case "missing":
                yield f"{path}: missing"
            case "extra_forbidden":
                yield f"{path}: there is no such argument. {suggestion(path, properties)}"
            case _:
                message = problem["msg"][:1].lower() + problem["msg"][1:]
                yield f"{path}: {message}, got {_shown(problem['input'])}"


def _refusal(spec: ToolSpec, problems: list[str]) -> ToolResult:
    listed = "\n".join(f"- {problem}" for problem in problems)
    observation = (
        f"The arguments of {spec.name!r} are wrong:\n{listed}\nCall it as {call_form(spec)}"
    )
    return ToolResult(observation=observation, status=ToolStatus.BAD_ARGUMENTS)


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    shown = text if len(text) <= MAX_SHOWN_VALUE else f"{text[:MAX_SHOWN_VALUE]}…"
    return json.dumps(shown, ensure_ascii=False) if isinstance(value, str) else shown
