"""Loading tasks from files, lists, functions and datasets of a Hugging Face hub."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from agentfly.errors import ConfigError, FormatError, boundary
from agentfly.runtime.extra import import_extra
from agentfly.runtime.names import look_up
from agentfly.types import Task

Row = Mapping[str, Any] | Task
Rows = str | Path | Iterable[Row] | Callable[[], Iterable[Row]]
"""A name as in a run's settings, a file, rows or tasks, or a function that returns them."""

SHOWN = 10
"""Maximum number of bad rows that an error lists."""

SHOWN_CHARACTERS = 80
"""Maximum characters of a line that an error quotes."""

_Located = Iterator[tuple[str, Any]]
"""Location of each row, and the row."""


def load_tasks(rows: Rows, *, source: str = "default", base: Path | None = None) -> list[Task]:
    """Read tasks from a JSON, JSON lines, CSV or Parquet file, a list of dicts, or a function.

    A text is a file's path, `module:function`, or a dataset of a Hugging Face hub, `hub:dataset`
    with `:split` or `:configuration:split`.

    A row has `question` or `messages` and any other fields. The id of its task is the row's own
    `id`, which must be unique, or else a hash of its contents: equal rows are several visits to one
    task.

    >>> [task.id for task in load_tasks([{"id": 7, "question": "2+2?"}])]
    ['7']

    Args:
        rows: Location of the rows, or the rows themselves.
        source: Name of the source.
        base: Folder in which files and modules are searched; by default the working directory.
    """
    found = find_rows(rows, base=base) if isinstance(rows, str) else rows
    return load_checked_tasks(found, source=source)


def load_checked_tasks(
    rows: Rows, *, source: str = "default", check: Callable[[Task], object] = lambda _: None
) -> list[Task]:
    """Read tasks; report all for which a check raises ConfigError, each with its place."""
    tasks: list[Task] = []
    problems: list[str] = []
    taken: dict[str, str] = {}
    for where, row in _located(rows):
        try:
            task = _task(row, source)
            check(task)
            tasks.append(task)
            _take_id(row, where, taken)
        except ConfigError as error:
            problems.append(f"{where}: {error}")
    if problems:
        raise ConfigError(_listed(problems))
    return tasks


def find_rows(name: str, *, base: Path | None = None) -> Rows:
    """Return the file, function or dataset that a text names, without reading it.

    >>> find_rows("sums.jsonl", base=Path("data")).as_posix()
    'data/sums.jsonl'
    """
    from agentfly.config import import_named, is_import_path  # rows that are given don't need it

    if name.startswith(HUB):
        return HubDataset.parse(name)
    path = (base or Path()) / name
    if is_import_path(name) and not path.exists():
        function: Rows = import_named(name, "function", base=base)
        if not callable(function):
            raise ConfigError(f"{name} is no function that returns rows, but {function!r}")
        return function
    return path


def disambiguate_ids(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Give tasks of one id in several sources ids of their own; all others keep theirs.

    >>> tasks = [Task(id="7", messages=(), source=source) for source in ("web", "books")]
    >>> [task.id for task in disambiguate_ids(tasks)]
    ['web/7', 'books/7']
    """
    counts = Counter(id for id, _ in {(task.id, task.source) for task in tasks})
    return tuple(
        replace(task, id=f"{task.source}/{task.id}") if counts[task.id] > 1 else task
        for task in tasks
    )


def _task(row: object, source: str) -> Task:
    if isinstance(row, Task):
        return replace(row, source=source)
    if not isinstance(row, Mapping) or not all(isinstance(key, str) for key in row):
        raise ConfigError(f'a row is a dict such as {{"question": "2+2?"}}, got {row!r}')
    return Task.from_row(row, source=source)


def _take_id(row: Row, where: str, taken: dict[str, str]) -> None:
    if isinstance(row, Task) or row.get("id") is None:
        return
    first = taken.setdefault(str(row["id"]), where)
    if first != where:
        raise ConfigError(
            f"id {row['id']!r} is taken by {first}: ids must be unique. Leave them out to "
            "identify rows by their contents"
        )


def _listed(problems: list[str]) -> str:
    shown = "".join(f"\n  {problem}" for problem in problems[:SHOWN])
    more = f"\n  and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return f"{len(problems)} bad rows:{shown}{more}"


def _located(rows: Rows) -> _Located:
    if isinstance(rows, str | Path):
        yield from _from_file(Path(rows))
        return
    if callable(rows):
        rows = _called(rows)
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", row


def _called(function: Callable[[], Iterable[Row]]) -> list[Row]:
    what = f"calling {getattr(function, '__name__', function)!s} for tasks"
    try:
        with boundary(ConfigError, what):
            return list(function())
    except SystemExit as error:
        raise ConfigError(f"{what} ended the program: it must return rows") from error


def _from_file(path: Path) -> _Located:
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} to read tasks from")
    read = look_up(path.suffix.lower(), _READERS, "kind of task file")
    try:
        yield from read(path)
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8") from error


def _json(path: Path) -> _Located:
    text = path.read_text(encoding="utf-8-sig")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}:{error.lineno} is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} {_too_large(error)}") from error
    if not isinstance(rows, list):
        raise FormatError(f"{path} must hold a list of rows, got a {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


def _jsonl(path: Path) -> _Located:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield f"{path}:{number}", json.loads(line)
            except json.JSONDecodeError as error:
                raise FormatError(
                    f"{path}:{number} is not JSON: {error.msg} at character {error.pos + 1} of "
                    f"{_shown(line)}. Expected one object in a line, such as "
                    '{"question": "What is 2+2?"}: correct the line, or take it out'
                ) from error
            except (ValueError, RecursionError) as error:
                raise FormatError(f"{path}:{number} {_too_large(error)}") from error


def _too_large(error: Exception) -> str:
    """Say why Python reads no more of a text that is JSON."""
    why = "lists or objects are nested too deeply" if isinstance(error, RecursionError) else error
    return f"can't be read: {why}. Write such a value as a text, in quotes"


def _shown(line: str) -> str:
    text = line.strip()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _csv(path: Path) -> _Located:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            for row in reader:
                where = f"{path}:{reader.line_num}"
                if None in row or None in row.values():
                    raise FormatError(
                        f"{where} does not have one cell for each of the columns "
                        f"{', '.join(reader.fieldnames or ())}. Put quotes around commas"
                    )
                yield where, row
        except csv.Error as error:
            line = reader.reader.line_num
            raise FormatError(f"{path}:{line} is not CSV: {error}") from error


def _parquet(path: Path) -> _Located:
    parquet = import_extra("pyarrow.parquet", extra="parquet", purpose=f"reading {path}")
    with boundary(FormatError, f"reading {path} as Parquet"):
        rows = parquet.read_table(path).to_pylist()
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


_READERS: dict[str, Callable[[Path], _Located]] = {
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}


HUB = "hub:"
"""Prefix of the names of hub datasets."""

_NAME = re.compile(
    r"hub:(?P<dataset>[^:\[\]]+)"
    r"(?::(?P<configuration>[^:\[\]]+)(?=:))?"
    r"(?::(?P<split>[^:\[\]]+(?:\[[^\[\]]*\])?))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """Split of a hub dataset. Calling it returns the rows, which are fetched once and cached."""

    dataset: str
    """`organization/name`, or a folder that the package `datasets` can read."""
    configuration: str | None = None
    split: str = "train"
    """May be a slice, as in `train[:100]`."""

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse a name as it is in settings.

        >>> HubDataset.parse("hub:openai/gsm8k:main:train[:100]")
        HubDataset(dataset='openai/gsm8k', configuration='main', split='train[:100]')
        >>> HubDataset.parse("hub:rajpurkar/squad").split
        'train'
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise ConfigError(
                f"{name!r} names no dataset: write hub:organization/name, and after that :split "
                "or :configuration:split if needed, as in hub:openai/gsm8k:main:train"
            )
        return cls(**{part: text for part, text in found.groupdict().items() if text})

    @property
    def __name__(self) -> str:
        """Name in messages."""
        return self.dataset

    def __call__(self) -> Iterable[Mapping[str, Any]]:
        """Return the rows, fetched or from the cache."""
        try:
            import datasets
        except ImportError as error:
            raise ConfigError(
                f"the dataset {self.dataset!r} needs the package `datasets`, which is not "
                "installed: pip install 'agentfly[hub]', or save the rows as JSON lines"
            ) from error
        try:
            with boundary(ConfigError, f"loading the dataset {self.dataset!r}"):
                return list(
                    datasets.load_dataset(self.dataset, self.configuration, split=self.split)
                )
        except ConfigError as error:
            if isinstance(error.__cause__, ConnectionError):
                raise ConfigError(
                    f"the dataset {self.dataset!r} is not in the cache, and the hub can't be "
                    f"reached: {error.__cause__}. Connect, or save the rows as JSON lines"
                ) from error
            raise
