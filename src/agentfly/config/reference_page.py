"""The reference page of all settings, generated from the classes' docstrings."""

import types
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter

from agentfly.config.setting_types import is_table, table_of, type_at, types_of, without_none
from agentfly.config.settings import RunSettings, Settings
from agentfly.config.settings_file import Plugins
from agentfly.config.toml_writer import toml_value

_INTRODUCTION = """\
# Settings

A run is one TOML file:

```toml
name = "calculator"

[model]
name = "smollm2-135m-instruct"

[algorithm]
name = "grpo"

[[source]]
tasks = "questions.jsonl"
tools = ["calculator"]
reward = "numeric_match"
```

`agentfly train run.toml train.lr=1e-5 source.0.tasks=more.jsonl` runs it with two settings changed.
A value is written as in TOML, and a word needs no quotes. `--dry-run` prints all settings, defaults
included (of an algorithm of your own, the options that are given), and stops. All problems are
reported at once.

Further TOML files are put over the first, key by key, with lists replaced as a whole:
`agentfly train run.toml one_gpu.toml train.lr=1e-5`.

Paths of files are relative to the folder of the TOML file. A name with a colon,
`my_tools:search`, is `search` of `my_tools.py` in that folder, in the working directory, or of an
installed package.
"""

_SHARED = """\
## Tables inside of `[{table}]`

Tables that several algorithms share are described here once; differing defaults are listed above.
"""

_HEAD = "| key | takes | default | what it means |\n|---|---|---|---|"
_WORDS = {bool: "true or false", float: "number", int: "whole number"}
"""Names of types; every other type is a text."""


def settings_page(plugins: Plugins | None = None) -> str:
    """Return a page with every table: its keys, their types, defaults and meanings."""
    sections = [_INTRODUCTION, *_sections(RunSettings, "The top of the file", "")]
    for table, known in (plugins or {}).items():
        for name, options in known.items():
            sections.append(_section(f'`[{table}]` with `name = "{name}"`', options))
        sections.append(_SHARED.format(table=table))
        for name, inner in _inner_tables(known.values()).items():
            sections.append(_section(f"`[{table}.{name}]`", inner))
    return "\n".join(sections)


def _inner_tables(tables: Iterable[type[Settings]]) -> dict[str, Any]:
    keys = [key for table in tables for key in types_of(table).items()]
    return {name: without_none(kind) for name, kind in keys if types_of(without_none(kind))}


def _sections(table: type[Settings], title: str, path: str) -> Iterator[str]:
    """Describe a table, and then the tables inside of it."""
    tables = {name: inner for name, kind in types_of(table).items() if (inner := table_of(kind))}
    yield _section(title, table, without=tables)
    for name, inner in tables.items():
        place = f"{path}.{name}" if path else name
        brackets = "`[{}]`" if is_table(type_at(table, (name,))) else "`[[{}]]`"
        yield from _sections(inner, brackets.format(place), place)


def _section(title: str, table: Any, without: Container[str] = ()) -> str:
    # The schema has the docstrings of dataclasses too, which a plug-in's inner tables may be.
    schema = TypeAdapter(table).json_schema()["properties"]
    rows = [
        _row(name, kind, schema[name])
        for name, kind in types_of(table).items()
        if name not in without
    ]
    return "\n".join([f"## {title}", "", table.__doc__, "", _HEAD, *rows, ""])


def _row(name: str, kind: Any, schema: Mapping[str, Any]) -> str:
    default = _default(schema["default"], name) if "default" in schema else ""
    meaning = " ".join(schema.get("description", "").split())
    return f"| `{name}` | {_takes(kind)} | {default} | {meaning} |"


def _default(value: Any, name: str) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        value = {key: one for key, one in value.items() if one is not None}
    return f"`{toml_value(value, name)}`"


def _takes(annotation: Any) -> str:
    """Return the type of a key in words.

    >>> _takes(int | None), _takes(tuple[str, ...]), _takes(Literal["k1", "k2"])
    ('whole number', 'list of text', '`k1`, `k2`')
    >>> _takes(dict[str, Any])
    'table'
    """
    kind = without_none(annotation)
    arguments = get_args(kind)
    match get_origin(kind):
        case None:
            inner = ", ".join(f"`{name}`" for name in types_of(kind))
            return f"table of {inner}" if inner else _WORDS.get(kind, "text")
        case origin if origin is Literal:
            return ", ".join(f"`{value}`" for value in arguments)
        case origin if origin is Annotated:
            return _takes(arguments[0])
        case origin if origin in (Union, types.UnionType):
            return " or ".join(map(_takes, arguments))
        case origin if origin is tuple and arguments[-1] is not Ellipsis:
            return f"list of {len(arguments)}: {_takes(arguments[0])}"
    return "table" if get_origin(kind) is dict else f"list of {_takes(arguments[0])}"
