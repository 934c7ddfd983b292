"""Settings as a TOML file: complete, commented, and equal to the settings when it is read again."""

import datetime
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from agentfly.config.settings import Settings
from agentfly.errors import ConfigError

_COMMENT_WIDTH = 98


def to_toml(settings: Settings) -> str:
    """Return every setting, defaults included, each with its meaning as a comment.

    Reading the text again gives the same settings. TOML has no value for None: such a key is left
    out, and a comment in its place says that it is not set.
    """
    return "\n".join(_table(settings, "")) + "\n"


def _table(table: Settings, path: str) -> Iterator[str]:
    """Yield the lines of a table's own keys and then of its tables, the order that TOML needs."""
    values = {name: getattr(table, name) for name in type(table).model_fields}
    values |= table.model_extra or {}
    for name, value in values.items():
        if not _tables_of(value):
            yield from _entry(table, name, value)
    for name, value in values.items():
        inner = f"{path}.{name}" if path else name
        header = f"[{inner}]" if isinstance(value, Settings) else f"[[{inner}]]"
        for one in _tables_of(value):
            yield from ("", *_comment(type(one).__doc__), header, *_table(one, inner))


def _tables_of(value: Any) -> Sequence[Settings]:
    """Return the tables of a key; none for a plain value."""
    if isinstance(value, Settings):
        return (value,)
    is_list = isinstance(value, tuple) and any(isinstance(one, Settings) for one in value)
    return value if is_list else ()


def _entry(table: Settings, name: str, value: Any) -> Iterator[str]:
    field = type(table).model_fields.get(name)
    yield from _comment(field.description if field else None)
    key = _key(name)
    yield f"# {key} is not set" if value is None else f"{key} = {toml_value(value, name)}"


def _comment(text: str | None) -> list[str]:
    """Return the first sentence as lines of comment."""
    words = " ".join((text or "").split())
    sentence = re.split(r"(?<=[.!?]) ", words, maxsplit=1)[0]
    return [f"# {line}" for line in textwrap.wrap(sentence, _COMMENT_WIDTH)]


def toml_value(value: Any, name: str) -> str:
    """Return a value as TOML; `name` is the key, for the error message.

    >>> toml_value(["k3", {"coefficient": 0.1}], "options")
    '["k3", {coefficient = 0.1}]'
    """
    match value:
        case list() | tuple():
            return f"[{', '.join(toml_value(one, name) for one in value)}]"
        case Mapping():
            pairs = [f"{_key(key)} = {toml_value(one, name)}" for key, one in value.items()]
            return f"{{{', '.join(pairs)}}}"
        case str() | Path():
            return _text(str(value))
        case bool() | int() | float() | datetime.date() | datetime.time():
            return str(_tomlkit().item(value).as_string())
    raise ConfigError(
        f"{name} can't be written to a TOML file: {value!r} is a {type(value).__name__}. Use "
        "texts, numbers, true or false, dates, and lists and tables of them"
    )


def _key(name: str) -> str:
    return str(_tomlkit().key(name).as_string())


def _text(text: str) -> str:
    r'''Return a text in quotes; one of several lines as people read it.

    >>> print(_text('say "hi"'), _text('one\n"two"?'))
    "say \"hi\"" """
    one
    "two"?"""
    '''
    # Readers of TOML take a raw \r\n for \n: such a text stays on one line, escaped.
    multiline = "\n" in text and "\r" not in text
    quoted = str(_tomlkit().string(text, multiline=multiline).as_string())
    # A line break right after the quotes is not part of the text. tomlkit adds it only if it must.
    if multiline and not quoted.startswith('"""\n'):
        return '"""\n' + quoted.removeprefix('"""')
    return quoted


def _tomlkit() -> ModuleType:
    """Import tomlkit on first use: only commands that write settings wait for it."""
    return import_module("tomlkit")
