"""From a TOML file and overrides to a run's settings, or to all mistakes at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agentfly.config.mistake import problems_of
from agentfly.config.override import override
from agentfly.config.plugin import Plugins, complete
from agentfly.config.problem import Problem, SettingsError, refuse_if_any
from agentfly.config.read import parse_toml, read_toml
from agentfly.config.settings import RunSettings, Settings

Check = Callable[[RunSettings], Iterable[Problem]]
"""Finds what only the composition root can know: names that stand for nothing, an algorithm that
needs larger groups."""

Table = TypeVar("Table", bound=Settings)


def load_settings(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    *,
    check: Check | None = None,
) -> RunSettings:
    """Read the settings of a run, or raise one SettingsError that tells of every mistake.

    Args:
        source: A TOML file, its text (of more than one line), or its tables as dicts.
        overrides: Each `key=value`, with a TOML value or a bare word: `train.lr=1e-5`.
        plugins: For a table, the names that are known and each one's own settings. A
            `module:name` of a user's own takes options that are not checked here.
        check: Called with settings that are valid in themselves.

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
    agentfly.config.problem.SettingsError: invalid settings
      train.lr: must be a number, got 'fast'
      train.stesp: unknown key. Did you mean 'steps'? …
    """
    file, data = read_tables(source)
    overridden = override(data, overrides)
    completed = complete(overridden.data, plugins or {})
    problems = [*overridden.problems, *completed.problems, *_without_tasks(completed.data)]
    # A plug-in whose options are wrong already can't be made, which is no second mistake.
    broken = {problem.key.partition(".")[0] for problem in completed.problems}

    def others(settings: RunSettings) -> Iterator[Problem]:
        found = check(settings) if check else ()
        return (problem for problem in found if problem.key.partition(".")[0] not in broken)

    return validated(RunSettings, completed.data, problems, file, check=others)


def validated(
    table: type[Table],
    data: Mapping[str, Any],
    problems: Sequence[Problem],
    file: str | None,
    *,
    check: Callable[[Table], Iterable[Problem]] = lambda _: (),
) -> Table:
    """Make settings of tables, or raise one error that tells of `problems` and of all others."""
    try:
        settings = table.model_validate(data)
    except ValidationError as error:
        raise SettingsError([*problems, *problems_of(error, table)], file) from error
    refuse_if_any([*problems, *check(settings)], file)
    return settings


def _without_tasks(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Ask for tasks, which only code that hands them over itself may leave out."""
    if "source" not in data:
        yield Problem(key="source", text="missing. Add at least one table [[source]]")
    elif data["source"] == []:
        text = "a run needs tasks: add at least one table [[source]]"
        yield Problem(key="source", text=text)


def read_tables(source: str | Path | Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """Return the file's name, if it is one, and its tables."""
    if isinstance(source, Mapping):
        return None, source
    if isinstance(source, str) and "\n" in source:
        return None, parse_toml(source, "this text")
    return str(source), read_toml(Path(source))
