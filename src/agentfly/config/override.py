"""Settings by dotted keys, and overrides of them: `train.lr=1e-5`, `source.0.tasks=more.jsonl`."""

import copy
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfly.config.setting_types import type_at
from agentfly.config.settings import RunSettings
from agentfly.config.validation_errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """A file's tables after the overrides, and the overrides that could not be applied."""

    data: dict[str, Any]
    problems: list[Problem]


def override(
    data: Mapping[str, Any],
    overrides: Sequence[str],
    *,
    written: str = "an override is written key=value, such as train.lr=1e-5",
) -> Overridden:
    """Apply overrides to a copy of the tables; for the same key the last one wins.

    >>> override({"train": {"steps": 3}}, ["train.lr=1e-5", "name=mine"]).data
    {'train': {'steps': 3, 'lr': 1e-05}, 'name': 'mine'}

    Args:
        data: Tables of a file.
        overrides: Texts such as `train.lr=1e-5`.
        written: Message for a text of another form.
    """
    changed = copy.deepcopy(dict(data))
    problems = []
    for text in overrides:
        key, equals, value = text.partition("=")
        key = key.strip()
        try:
            if not equals or not key:
                raise _NoPlaceError(written)
            _put(changed, key.split("."), _value(key, value.strip()))
        except _NoPlaceError as error:
            problems.append(Problem(key=key or text, text=str(error)))
    return Overridden(data=changed, problems=problems)


class _NoPlaceError(Exception):
    """An override that can't be applied."""


def _value(key: str, text: str) -> Any:
    """Parse a TOML value; words need no quotes, and keys of text take any text: `name=7`."""
    quoted = text[:1] in ('"', "'")
    if type_at(RunSettings, key.split(".")) is str and not quoted:
        return text
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if quoted or text[:1] in ("[", "{"):
            raise _NoPlaceError(
                f"{text} is not a TOML value. Texts inside of lists have quotes, and the whole is "
                f"""put in quotes for the shell: '{key}=["one", "two"]'"""
            ) from error
        return text
    return read["value"] if len(read) == 1 else text


def _put(table: Any, path: Sequence[str], value: Any) -> None:
    """Set a value by its path, creating missing tables on the way."""
    for done, part in enumerate(path[:-1], start=1):
        empty: Any = [] if path[done].isdecimal() else {}
        table = _entry(table, part, empty, ".".join(path[: done - 1]))
    parent = ".".join(path[:-1])
    if isinstance(table, list):
        _entry(table, path[-1], None, parent)
        table[int(path[-1])] = value
    else:
        _table(table, parent)[path[-1]] = value


def _entry(table: Any, part: str, empty: Any, parent: str) -> Any:
    if not isinstance(table, list):
        return _table(table, parent).setdefault(part, empty)
    if not part.isdecimal() or int(part) > len(table):
        raise _NoPlaceError(
            f"{parent} has {len(table)} entries, which are counted from 0, and {part!r} is not "
            f"the number of one. The next new one is {parent}.{len(table)}"
        )
    if int(part) == len(table):
        table.append(empty)
    return table[int(part)]


def _table(table: Any, parent: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise _NoPlaceError(f"{parent} is no table, but {table!r}, so nothing can be inside of it")
    return table


def dotted(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting of some tables with its dotted key.

    >>> dict(dotted({"train": {"lr": 0.1}, "source": [{"kind": "tags"}], "trackers": ["wandb"]}))
    {'train.lr': 0.1, 'source.0.kind': 'tags', 'trackers': ['wandb']}
    """
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        parts = {str(number): part for number, part in enumerate(value)}.items()
    else:
        yield key, value
        return
    for name, part in parts:
        yield from dotted(part, f"{key}.{name}" if key else str(name))
