"""The benchmark's own games, in either of the two usual layouts.

    $ALFWORLD_DATA/json_2.1.1/train/TASK/TRIAL/game.tw-pddl     a folder for each game
    FOLDER/train.jsonl.gz                                       a line for each game

Only games that the benchmark marks as solvable are taken, as it does itself.
"""

import gzip
import json
import os
import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import IO, Any, Literal

from agentfly.environments.alfworld.engine.game import Script
from agentfly.environments.alfworld.engine.problem import Problem
from agentfly.errors import ConfigError, FormatError

Split = Literal["train", "valid_seen", "valid_unseen"]
GoalText = Literal["template", "human"]

LAYOUT = "json_2.1.1"
GAME_FILE = "game.tw-pddl"

_TASK = re.compile(r"Your task is to: (.*?)\s*\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialGame:
    """One game of the benchmark, before its problem is parsed."""

    id: str
    """Such as `valid_seen/look_at_obj_in_light-Mug-None-DeskLamp-308/trial_T20190908`."""
    file: str
    line: int | None
    """Line of the game in its file; None where each game has its own file."""
    pddl: str
    template: str
    human: tuple[str, ...]

    def words(self, goal_text: GoalText) -> str:
        """Return the task in words. Of several annotations, the choice is fixed by the id."""
        if goal_text == "template":
            return _sentence(self.template)
        if not self.human:
            raise ConfigError(
                f"game {self.id} of {self.file} has no goal in a person's words: "
                'set goal_text = "template"'
            )
        return _sentence(Random(self.id).choice(self.human))


def data_folder(data: str) -> Path:
    """Return the folder with variables such as `$ALFWORLD_DATA` and `~` expanded."""
    expanded = os.path.expandvars(data)
    if unset := re.search(r"\$\{?(\w+)", expanded):
        raise ConfigError(
            f"data = {data!r}: the environment variable {unset[1]} is not set. Set it to the "
            "folder of the games, or name the folder itself"
        )
    if not expanded:
        raise ConfigError(
            "data is empty: name the folder of the games. The shell makes $ALFWORLD_DATA empty if "
            "ALFWORLD_DATA is not set"
        )
    return Path(expanded).expanduser()


def official_games(data: str, split: Split) -> Iterator[OfficialGame]:
    """Yield the solvable games of a split; raise ConfigError if there are none."""
    folder = data_folder(data)
    games_folder = folder / LAYOUT / split
    files = [folder / f"{split}.jsonl.gz", folder / f"{split}.jsonl"]
    file = next((file for file in files if file.is_file()), None)
    if games_folder.is_dir():
        games = _in_folders(games_folder, split)
    elif file is not None:
        games = _in_lines(file)
    else:
        raise ConfigError(
            f"no games in {str(folder)!r}: expected the folder {LAYOUT}/{split} that "
            f"`alfworld-download` makes, or the file {split}.jsonl or {split}.jsonl.gz"
        )
    found = False
    for game in games:
        found = True
        yield game
    if not found:
        raise ConfigError(f"none of the games of {split} in {str(folder)!r} is marked as solvable")


def official_script(file: str, line: int | None, task: str) -> Script:
    """Read one game, with its task in the words of the row."""
    text = _game_file(Path(file))["pddl_problem"] if line is None else _line_text(file, line)
    return Script(problem=read_problem(text, file, line), task=task, text=text)


def read_problem(text: str, file: str, line: int | None) -> Problem:
    """Parse a problem's text; raise a FormatError that names file and line."""
    try:
        return Problem.from_pddl(text)
    except FormatError as error:
        raise FormatError(f"{_where(file, line)} can't be read: {error}") from error


def _in_folders(folder: Path, split: str) -> Iterator[OfficialGame]:
    for path in sorted(folder.rglob(GAME_FILE)):
        row = _game_file(path)
        if not row.get("solvable"):
            continue
        task = _TASK.search(row.get("grammar", ""))
        yield OfficialGame(
            id=f"{split}/{path.parent.parent.name}/{path.parent.name}",
            file=str(path),
            line=None,
            pddl=row["pddl_problem"],
            template=task.group(1) if task else "",
            human=_annotations(path.with_name("traj_data.json")),
        )


def _annotations(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    known = _json(path.read_text(), str(path))
    people = known.get("turk_annotations", {}).get("anns", ())
    return tuple(person["task_desc"] for person in people)


def _game_file(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise ConfigError(f"the game file {str(path)!r} is gone")
    return _require(_json(path.read_text(), str(path)), ["pddl_problem"], str(path))


def _in_lines(path: Path) -> Iterator[OfficialGame]:
    for line, row in _rows(path):
        if row["solvable"]:
            yield OfficialGame(
                id=f"{row['split']}/{row['task_dir']}/{row['trial']}",
                file=str(path),
                line=line,
                pddl=row["pddl_problem"],
                template=row["desc"],
                human=tuple(row.get("human") or ()),
            )


_COLUMNS = ("split", "task_dir", "trial", "desc", "solvable", "pddl_problem")


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, text in enumerate(_lines(path), start=1):
        if text.strip():
            where = _where(str(path), line)
            yield line, _require(_json(text, where), _COLUMNS, where)


def _lines(path: Path) -> Iterator[str]:
    with _open(path) as file:
        try:
            yield from file
        except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
            raise FormatError(f"{path} is cut short or damaged: {error}") from error


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _line_text(file: str, line: int) -> str:
    with _reading:
        found = _packed_lines(file).get(line)
    if found is None:
        raise ConfigError(f"{file} has no line {line} any more")
    return zlib.decompress(found).decode()


_reading = threading.Lock()
"""Concurrent chains wait for one reading instead of each reading the file."""


@lru_cache(maxsize=4)
def _packed_lines(file: str) -> Mapping[int, bytes]:
    """Return a file's problems, compressed and shared by all chains: 5 kB each instead of 40."""
    if not Path(file).is_file():
        raise ConfigError(f"the file of games {file!r} is gone")
    rows = _rows(Path(file))
    return {line: zlib.compress(row["pddl_problem"].encode(), level=1) for line, row in rows}


def _json(text: str, where: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"{where} is not JSON: {error.msg}") from error
    if not isinstance(row, dict):
        raise FormatError(f"{where} must hold a JSON object, got a {type(row).__name__}")
    return row


def _require(row: Mapping[str, Any], names: Sequence[str], where: str) -> Mapping[str, Any]:
    missing = [name for name in names if name not in row]
    if missing:
        raise FormatError(f"{where} lacks {', '.join(missing)}. It has: {', '.join(row)}")
    return row


def _where(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def _sentence(words: str) -> str:
    """End with one full stop.

    >>> _sentence("Look at  a clock.. "), _sentence("put a mug in desk")
    ('Look at a clock.', 'put a mug in desk.')
    """
    return " ".join(words.split()).rstrip(". ") + "."
