"""A run's settings as the TOML file that gives them again, complete and commented."""

import datetime
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfly.config.settings import Settings
from agentfly.errors import ConfigError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_COMMENT_WIDTH = 98


def to_toml(settings: Settings) -> str:
    """Write every setting, defaults included, each with what it means.

    Reading the text again gives the same settings. TOML has no word for None: such a key is left
    out, and a comment in its place says so.
    """
    return "\n".join(_table(settings, "")) + "\n"


def _table(table: Settings, path: str) -> Iterator[str]:
    """Write a table's own keys, and then its tables, as TOML wants it."""
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
    """Return the tables that a key stands for; none for a plain value."""
    if isinstance(value, Settings):
        return (value,)
    is_list = isinstance(value, tuple) and any(isinstance(one, Settings) for one in value)
    return value if is_list else ()


def _entry(table: Settings, name: str, value: Any) -> Iterator[str]:
    field = type(table).model_fields.get(name)
    yield from _comment(field.description if field else None)
    if value is None:
        yield f"# {_key(name)} is not set"
    else:
        yield f"{_key(name)} = {toml_value(value, name)}"


def _comment(text: str | None) -> list[str]:
    """Show the first sentence."""
    words = " ".join((text or "").split())
    sentence = re.split(r"(?<=[.!?]) ", words, maxsplit=1)[0]
    return [f"# {line}" for line in textwrap.wrap(sentence, _COMMENT_WIDTH)]


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def toml_value(value: Any, name: str) -> str:
    """Write a value; `name` is what to call it if that can't be done.

    >>> toml_value(["k3", {"coefficient": 0.1}], "options")
    '["k3", {coefficient = 0.1}]'
    """
    match value:
        case list() | tuple():
            return f"[{', '.join(toml_value(one, name) for one in value)}]"
        case Mapping():
            pairs = [f"{_key(key)} = {toml_value(one, name)}" for key, one in value.items()]
            return f"{{{', '.join(pairs)}}}"
        case _:
            return _plain(value, name)


def _plain(value: Any, name: str) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str() | Path():
            return _text(str(value))
        case datetime.date() | datetime.time():
            return value.isoformat()
    raise ConfigError(
        f"{name} can't be written to a TOML file: {value!r} is a {type(value).__name__}. Use "
        "texts, numbers, true or false, dates, and lists and tables of them"
    )


def _text(text: str) -> str:
    r'''Write a text in quotes; one of several lines as people read it.

    >>> print(_text('say "hi"'), _text("one\ntwo"))
    "say \"hi\"" """
    one
    two"""
    '''
    quoted = _quoted(text)
    if "\n" not in text:
        return quoted
    lines = re.sub(r"(\\\\)|\\n", lambda found: found[1] or "\n", quoted[1:-1])
    return f'"""\n{lines}"""'


def _quoted(text: str) -> str:
    # JSON escapes what TOML wants escaped, but for one character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
