"""Types of settings by their keys, read from the settings classes."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints

from agentfly.config.settings import Settings

Path = Sequence[str | int]
"""A key in parts: `("source", 0, "tasks")`."""


def type_at(table: type[Settings], path: Path) -> Any:
    """Return the type of a key; None for an unknown key.

    >>> from agentfly.config import RunSettings
    >>> type_at(RunSettings, ("source", 0, "tasks")), type_at(RunSettings, ("train", "stps"))
    (<class 'str'>, None)
    """
    found: Any = table
    for part in path:
        if get_origin(found) is tuple:
            found = without_none(get_args(found)[0])
        else:
            found = without_none(types_of(found).get(part))
    return found


def types_of(table: Any) -> Mapping[Any, Any]:
    """Return the type of each key of a table; a plug-in's inner tables may be dataclasses."""
    if is_table(table):
        return {name: field.annotation for name, field in table.model_fields.items()}
    if isinstance(table, type) and dataclasses.is_dataclass(table):
        hints = get_type_hints(table)
        return {field.name: hints[field.name] for field in dataclasses.fields(table)}
    return {}


def without_none(annotation: Any) -> Any:
    """Return the `X` of `X | None`, and any other type unchanged."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    others = [arm for arm in get_args(annotation) if arm is not type(None)]
    return others[0] if len(others) == 1 else annotation


def is_table(annotation: Any) -> bool:
    """Return whether a type is a table of settings."""
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def table_of(annotation: Any) -> type[Settings] | None:
    """Return the class of a table, or of each table of a list; None for a plain value."""
    kind = without_none(annotation)
    kind = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return kind if is_table(kind) else None
