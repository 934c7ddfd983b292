"""Problems in settings: collected, translated from pydantic's errors, raised together."""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentfly.config.peer_names import our_key
from agentfly.config.setting_types import Path, is_table, table_of, type_at, types_of
from agentfly.config.settings import RunSettings, Settings
from agentfly.errors import ConfigError
from agentfly.runtime.names import suggestion

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One wrong key of the settings.

    >>> str(Problem(key="train.steps", text="must be a whole number, got 'many'"))
    "train.steps: must be a whole number, got 'many'"
    """

    key: str
    """Dotted path: `source.0.tasks` is the tasks of the first source."""
    text: str
    """Problem, expected value and way out."""
    quote: str | None = None
    """Line of the file that sets the key, with a caret below."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class SettingsError(ConfigError):
    """All problems of a run's settings in one error.

    >>> raise SettingsError([Problem(key="name", text="missing")], "run.toml")
    Traceback (most recent call last):
    agentfly.config.validation_errors.SettingsError: invalid settings in run.toml
      name: missing
    """

    def __init__(self, problems: Sequence[Problem], file: str | None) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        self.file = file
        where = f" in {file}" if file else ""
        lines = [line for problem in self.problems for line in _lines_of(problem)]
        super().__init__("\n  ".join([f"invalid settings{where}", *lines]))


def _lines_of(problem: Problem) -> list[str]:
    quoted = (problem.quote or "").splitlines()
    return [str(problem), *(f"  {line}" for line in quoted)]


class Problems:
    """Collects problems, so that all of them can be reported at once.

    >>> problems = Problems("source.0.")
    >>> problems.tried("weight", float, "0.5")
    0.5
    >>> problems.found
    []
    """

    def __init__(self, prefix: str = "", found: list[Problem] | None = None) -> None:
        self.found: list[Problem] = [] if found is None else found
        self._prefix = prefix

    def under(self, prefix: str) -> "Problems":
        """Return a view whose keys begin with another prefix."""
        return Problems(f"{self._prefix}{prefix}", self.found)

    def add(self, *problems: Problem) -> None:
        """Add problems, with the prefix before their keys."""
        self.found += [replace(one, key=f"{self._prefix}{one.key}") for one in problems]

    def tried(self, key: str, find: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function; add its ConfigError as a problem and return None."""
        try:
            return find(*args, **kwargs)
        except SettingsError as error:
            self.add(*error.problems)
        except ConfigError as error:
            self.add(Problem(key=key, text=str(error)))
        return None


def refuse_if_any(problems: Sequence[Problem], file: str | None) -> None:
    """Raise one SettingsError for all problems, if there are any."""
    if problems:
        raise SettingsError(problems, file)


_EXPECTED = {
    "bool": "true or false",
    "dataclass": "a table",
    "dict": "a table",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a table",
    "path": "a path in quotes",
    "string": "a text in quotes",
    "tuple": "a list",
}
"""Expected values in words, by the family of pydantic's type errors."""
_WRONG_TYPE = ("_type", "_parsing", "_parsing_size", "_from_float")
_WRONG_LENGTH = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Types of pydantic's errors for keys that a table does not have."""
_SHOWN = 60
"""Maximum number of characters shown of a wrong value."""


def problems_of(
    error: ValidationError,
    table: type[Settings],
    prefix: str = "",
    *,
    suggest_settings: bool = True,
) -> list[Problem]:
    """Translate pydantic's errors into problems, one per key.

    Args:
        error: Error that validating the table raised.
        table: Class of the table.
        prefix: Path of the table, such as `algorithm`.
        suggest_settings: Whether an unknown key may be meant for another table of a run's
            settings. One of an environment's options is not.
    """
    all_found = error.errors(include_url=False)
    return [
        Problem(
            key=".".join(map(str, (*([prefix] if prefix else ()), *found["loc"]))),
            text=_unknown_option(found["loc"], table)
            if found["type"] in _UNKNOWN and not suggest_settings
            else _sentence(found, table),
        )
        for found in all_found
        if not _follows_from_items(found, all_found)
    ]


def _follows_from_items(found: ErrorDetails, others: Sequence[ErrorDetails]) -> bool:
    """Return whether a list is too short only because pydantic left its invalid items out."""
    path, given = found["loc"], found["input"]
    if found["type"] != "too_short" or not isinstance(given, Sized):
        return False
    has_invalid_items = any(one["loc"][: len(path)] == path and one is not found for one in others)
    return has_invalid_items and len(given) >= found["ctx"]["min_length"]


def _sentence(found: ErrorDetails, table: type[Settings]) -> str:
    kind = found["type"]
    if kind in _UNKNOWN:
        return _unknown_key(found["loc"], table)
    if kind in ("missing", "missing_argument"):
        return _missing(found["loc"], table)
    if kind == "value_error":
        return str(found["ctx"]["error"])
    if kind == "tuple_type" and isinstance(found["input"], Mapping):
        name = found["loc"][-1]
        return f"there may be several: write [[{name}]] in double brackets instead of [{name}]"
    if kind in _WRONG_LENGTH:
        words, bound = _WRONG_LENGTH[kind]
        return f"must be a list of {words} {found['ctx'][bound]}, got {_shown(found['input'])}"
    family = kind.partition("_")[0]
    if kind.endswith(_WRONG_TYPE) and family in _EXPECTED:
        expected = f"must be {_EXPECTED[family]}"
    else:
        expected = found["msg"].replace("Input should be", "must be")
    # Such as `model = "tiny"`.
    is_name = family == "model" and isinstance(found["input"], str)
    hint = f': write {found["loc"][-1]}.name = "{found["input"]}"' if is_name else ""
    return f"{expected}, got {_shown(found['input'])}{hint}"


def _unknown_key(path: Path, table: type[Settings]) -> str:
    name = str(path[-1])
    known = our_key(name)
    if known is not None and _is_key(known[0], table):
        key, note = known
        return f"unknown key. Did you mean {key}{f' ({note})' if note else ''}?"
    elsewhere = [
        f"{other}.{name}"
        for other, field in _file_of(table).model_fields.items()
        if is_table(field.annotation) and type_at(_file_of(table), (other, name)) is not None
    ]
    if elsewhere:
        return f"unknown key. Did you mean {' or '.join(elsewhere)}?"
    return _unknown_option(path, table)


def _unknown_option(path: Path, table: type[Settings]) -> str:
    return f"unknown key. {suggestion(str(path[-1]), types_of(type_at(table, path[:-1])))}"


def _is_key(key: str, table: type[Settings]) -> bool:
    """Return whether the settings have a key; options of an algorithm are in its own class."""
    owner, _, option = key.partition(".")
    if owner == "algorithm" and option != "name" and _file_of(table) is not table:
        return type_at(table, option.split(".")) is not None
    is_option = owner == "algorithm" and table is RunSettings
    return is_option or type_at(_file_of(table), key.split(".")) is not None


def _file_of(table: type[Settings]) -> type[Settings]:
    """Return the settings that a table belongs to: a plug-in's options are part of a run's."""
    is_whole = any(is_table(field.annotation) for field in table.model_fields.values())
    return table if is_whole else RunSettings


def _missing(path: Path, table: type[Settings]) -> str:
    kind, name = type_at(table, path), path[-1]
    if is_table(kind):
        return f"missing. Add the table [{name}]. {kind.__doc__}"
    if table_of(kind):
        return f"missing. Add at least one table [[{name}]]"
    parent = type_at(table, path[:-1])
    meaning = parent.model_fields[name].description if is_table(parent) else None
    return f"missing. {' '.join((meaning or 'It has no default').split())}"


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
