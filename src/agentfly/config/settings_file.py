"""Read a run's settings from a TOML file and overrides; report all problems at once."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agentfly.config.override import Overridden, override
from agentfly.config.settings import RunSettings, Settings
from agentfly.config.toml_lines import quote_error, quote_key
from agentfly.config.validation_errors import Problem, SettingsError, problems_of, refuse_if_any
from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.names import suggestion

Plugins = Mapping[str, Mapping[str, type[Settings]]]
"""Known names and their settings classes, by table: {"algorithm": {"grpo": …}}."""
Check = Callable[[RunSettings], Iterable[Problem]]
"""Finds problems that only the composition root can see: unknown names, an algorithm that needs
larger groups."""

Table = TypeVar("Table", bound=Settings)


def load_settings(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    *,
    check: Check | None = None,
) -> RunSettings:
    """Read the settings of a run, or raise one SettingsError with every problem.

    Args:
        source: Path of a TOML file, its text (several lines), or its tables as dicts.
        overrides: Overrides `key=value`, with a TOML value or a bare word: `train.lr=1e-5`; or
            further TOML files, whose keys replace those of the first before any `key=value` does.
        plugins: Known names and their settings classes, by table. The options of a
            `module:name` are not checked here.
        check: Called with settings that are valid in themselves, for further problems.

    >>> text = '''
    ... name = "sums"
    ... model.name = "tiny"
    ... [train]
    ... stesp = 3
    ... lr = "fast"
    ... [[source]]
    ... tasks = "sums.jsonl"
    ... '''
    >>> load_settings(text.replace("stesp", "steps").replace('"fast"', "1e-3")).train.lr
    0.001
    >>> load_settings(text)
    Traceback (most recent call last):
    agentfly.config.validation_errors.SettingsError: invalid settings
      train.lr: must be a number, got 'fast'
        line 6 | lr = "fast"
                 ^^
      train.stesp: unknown key. Did you mean 'steps'? …
    """
    file, overridden = read_overridden(source, overrides)
    completed = complete(overridden.data, plugins or {})
    problems = [*overridden.problems, *completed.problems, *_without_tasks(completed.data)]
    # A plug-in whose options are wrong can't be made either: that is not a second problem.
    broken = {problem.key.partition(".")[0] for problem in completed.problems}

    def others(settings: RunSettings) -> Iterator[Problem]:
        found = check(settings) if check else ()
        return (problem for problem in found if problem.key.partition(".")[0] not in broken)

    with quoted_lines(source, overrides):
        return validated(RunSettings, completed.data, problems, file, check=others)


def _without_tasks(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if no source of tasks is there; only Python code may leave it out."""
    if "source" not in data:
        yield Problem(key="source", text="missing. Add at least one table [[source]]")
    elif data["source"] == []:
        text = "a run needs tasks: add at least one table [[source]]"
        yield Problem(key="source", text=text)


def validated(
    table: type[Table],
    data: Mapping[str, Any],
    problems: Sequence[Problem],
    file: str | None,
    *,
    check: Callable[[Table], Iterable[Problem]] = lambda _: (),
) -> Table:
    """Validate tables into settings, or raise one error with `problems` and all new ones."""
    try:
        settings = table.model_validate(data)
    except ValidationError as error:
        raise SettingsError([*problems, *problems_of(error, table)], file) from error
    refuse_if_any([*problems, *check(settings)], file)
    return settings


def read_overridden(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str]
) -> tuple[str | None, Overridden]:
    """Return the name of the file, or of all files, and their tables after all overrides."""
    file, data = read_tables(source)
    files = [text for text in overrides if is_toml_file(text)]
    for name in files:
        data = merged(data, read_toml(Path(name)))
    single = [text for text in overrides if not is_toml_file(text)]
    names = " + ".join([file, *files]) if file is not None else None
    return names, override(data, single)


def is_toml_file(text: str) -> bool:
    """Return whether an override names a TOML file.

    >>> is_toml_file("one_gpu.toml"), is_toml_file("source.0.tasks=rows.toml")
    (True, False)
    """
    return text.endswith(".toml") and "=" not in text


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with the keys of others put over them; lists are replaced as a whole.

    >>> merged({"train": {"steps": 3, "lr": 1e-5}}, {"train": {"lr": 1e-4}, "seed": 7})
    {'train': {'steps': 3, 'lr': 0.0001}, 'seed': 7}
    """
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = merged(below, value)
        result[key] = value
    return result


def read_tables(source: str | Path | Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """Return the file's name, if the source is a file, and its tables."""
    if isinstance(source, Mapping):
        return None, source
    if isinstance(source, str) and "\n" in source:
        return None, parse_toml(source, "this text")
    return str(source), read_toml(Path(source))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file into nested dicts."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {str(path)!r}. {_others(path)}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{str(path)!r} is a folder. {_others(path / '*')}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FormatError(f"{path} is not UTF-8 text in line {line}. Save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{str(path)!r} can't be read: {error.strerror}") from error
    return parse_toml(text, str(path))


def _others(path: Path) -> str:
    """Return a sentence with the TOML files that the folder has instead."""
    files = [file.name for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    return suggestion(path.name, files).replace("Known", f"TOML files in {str(path.parent)!r}")


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Parse a text into nested dicts; `file` is its name in error messages."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(
            f"{file} is not TOML: {error}{_hint(text, error)}\n  "
            + quote_error(text, error).replace("\n", "\n  ")
        ) from error


def _hint(text: str, error: tomllib.TOMLDecodeError) -> str:
    """Return the usual correction of a value that can't be read."""
    if "Invalid value" in str(error):
        return '. Texts are in quotes: name = "sums"; true and false are in small letters'
    if "overwrite" in str(error) or "twice" in str(error):
        return ". Each key and each table [name] is written once; only [[source]] may be repeated"
    if "newline or end of document" in str(error):
        return ". Each key has a line of its own, as in: train.lr = 1e-5"
    return ""


@contextmanager
def quoted_lines(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str]
) -> Iterator[None]:
    """Quote the lines of a file, or of its text, in a SettingsError of the block.

    With several files nothing is quoted: a line number alone would not say of which.
    """
    try:
        yield
    except SettingsError as error:
        text = _text_of(source)
        if text is None or any(map(is_toml_file, overrides)):
            raise
        # The file's line is not what is wrong where an override replaced it.
        overridden = {entry.partition("=")[0].strip() for entry in overrides}
        problems = [
            one if one.key in overridden else replace(one, quote=quote_key(text, one.key))
            for one in error.problems
        ]
        raise SettingsError(problems, error.file) from error.__cause__


def _text_of(source: str | Path | Mapping[str, Any]) -> str | None:
    if isinstance(source, Mapping):
        return None
    if isinstance(source, str) and "\n" in source:
        return source
    return Path(source).read_text(encoding="utf-8-sig")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A run's tables with the defaults of each plug-in, and the problems found."""

    data: dict[str, Any]
    problems: list[Problem] = field(default_factory=list)


def complete(data: Mapping[str, Any], plugins: Plugins) -> Completed:
    """Check each plug-in's own options, and fill in their defaults.

    A name with a colon is an import path; its options are checked when it is imported.
    """
    completed, problems = dict(data), []
    for table, known in plugins.items():
        given = data.get(table, {})
        if not isinstance(given, Mapping):
            continue  # reported later, as a value that is not a table
        name = given.get("name", RunSettings.model_fields[table].default.name)
        if not isinstance(name, str) or ":" in name:
            continue
        if name not in known:
            said = f"unknown {table} {name!r}. {suggestion(name, known)} Your own is `module:name`"
            problems.append(Problem(key=f"{table}.name", text=said))
            continue
        try:
            takes = known[name]
        except ConfigError as error:
            problems.append(Problem(key=f"{table}.name", text=str(error)))
            continue
        try:
            options = takes.model_validate({k: v for k, v in given.items() if k != "name"})
        except ValidationError as error:
            problems += problems_of(error, takes, table)
        else:
            # TOML has no value for None; leaving it out gives the plug-in's default.
            values = options.model_dump(mode="json", exclude_none=True)
            completed[table] = {"name": name, **values}
    return Completed(data=completed, problems=problems)
