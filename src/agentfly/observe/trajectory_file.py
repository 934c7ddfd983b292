"""Trajectories in files of JSON lines: what is read equals what was written.

Field names on disk are those of the dataclasses in `agentfly.types`. Floats are exact, images are
base64, tuples and enums are read back as such. Text is exact too, with one exception of JSON: a
high surrogate right before a low one is read as the character that the two encode.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import GenericAlias, TracebackType
from typing import Any, Generic, Self, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from agentfly.errors import ConfigError, FormatError
from agentfly.observe.whole_file import whole_file
from agentfly.runtime.journal import Journal, plain, read_record, whole_lines
from agentfly.types import Group, Trajectory

FORMAT_VERSION = 2
"""Increased when a field is added, removed or changes its meaning; earlier ones stay readable."""
MEMBER_BYTES = 1 << 20
"""Text in a member of a compacted file, beyond which the next one begins."""

T = TypeVar("T")


class Decoder(Generic[T]):
    """Reads one kind of dataclass from JSON values, checking every field.

    >>> from agentfly.types import Score
    >>> Decoder(Score).decode({"value": 0.1, "per_turn": [0.1]}, where="scores.jsonl:1")
    Score(value=0.1, parts={}, per_turn=(0.1,))
    """

    def __init__(self, of: type[T]) -> None:
        # A plain dataclass takes no config of its own: it inherits the one of the tuple.
        around: Any = GenericAlias(tuple, (of,))
        self._adapter: TypeAdapter[tuple[T]] = TypeAdapter(around, config=_CONFIG)

    def decode(self, record: Mapping[str, Any], *, where: str) -> T:
        """Read a record; `where` is named in errors, as file and line."""
        try:
            (value,) = self._adapter.validate_python((record,))
        except ValidationError as error:
            raise FormatError(f"{where}: {_problems(error)}") from error
        return value


_CONFIG = ConfigDict(extra="forbid", val_json_bytes="base64")


def _problems(error: ValidationError) -> str:
    """Return each problem with its path: `streams.0.turns.2.temperature: Field required`."""
    return "; ".join(
        f"{'.'.join(str(step) for step in problem['loc'][1:]) or 'record'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )


def encode_trajectory(trajectory: Trajectory) -> dict[str, Any]:
    """Return a trajectory as a JSON record; raise ConfigError for a user's value that is not JSON.

    As text: `json.dumps(encode_trajectory(trajectory), default=plain)`, with the journal's `plain`.
    """
    for where, value in _user_values(trajectory):
        require_json(value, f"chain {trajectory.chain_id!r}, {where}")
    record: dict[str, Any] = plain(trajectory)
    return record


def decode_trajectory(record: Mapping[str, Any], *, where: str) -> Trajectory:
    """Return the trajectory of a record of `encode_trajectory` that has been through JSON."""
    return _decoder().decode(record, where=where)


@cache
def _decoder() -> Decoder[Trajectory]:
    """Return the decoder, built on first use: it takes longer than all imports."""
    return Decoder(Trajectory)


def _user_values(trajectory: Trajectory) -> Iterator[tuple[str, object]]:
    yield "task.fields", trajectory.task.fields
    yield "metadata", trajectory.metadata
    for spec in trajectory.tools:
        yield f"tool {spec.name!r} parameters", spec.parameters
    for turn in trajectory.turns:
        yield f"turn {turn.index} info", turn.info
        for position, result in enumerate(turn.results):
            yield f"turn {turn.index} results[{position}].info", result.info


def require_json(value: object, where: str) -> None:
    """Raise ConfigError, with the path, for a value that is not JSON."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _not_json(key, f"a key of {where}")
            require_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            require_json(item, f"{where}[{position}]")
    elif not (value is None or isinstance(value, str | int | float)):
        raise _not_json(value, where)


def _not_json(value: object, where: str) -> ConfigError:
    return ConfigError(
        f"{where} can't be saved: got a {type(value).__name__}, expected a JSON value (text keys; "
        "text, numbers, booleans, None, lists, dicts). Convert it where it is made"
    )


KIND = "trajectory"


class TrajectoryWriter:
    """Appends finished chains to a file, one line each.

    Every line is passed to the operating system in one write before `write` returns: it survives
    the process, even `kill -9`. `sync` and `close` make it survive the machine. A line that a crash
    cut short is removed when the file is opened again, with a warning in the log.

        with TrajectoryWriter("runs/demo/trajectories/step_3.jsonl") as writer:
            writer.write(trajectory)
        compact("runs/demo/trajectories/step_3.jsonl")
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        if _existing(path) != path:
            raise ConfigError(
                f"{path} has been compacted to {_packed(path)} and takes no more trajectories: "
                "write to another file"
            )
        self._journal = Journal(path, kind=KIND, version=FORMAT_VERSION)

    def write(self, trajectory: Trajectory) -> None:
        """Append one trajectory."""
        self._journal.append(encode_trajectory(trajectory))

    def write_group(self, group: Group) -> None:
        """Append all trajectories of a group."""
        for member in group.members:
            self.write(member)

    def sync(self) -> None:
        """Wait until the disk holds everything written so far."""
        self._journal.sync()

    def close(self) -> None:
        """Sync the file and release its lock. Closing twice does nothing."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_trajectories(path: str | Path, *, chain_id: str | None = None) -> Iterator[Trajectory]:
    """Yield the trajectories of a file in written order.

    The path of a file that has been compacted since still works. An unfinished last line is
    skipped with a warning in the log; any other broken line is a FormatError that names it.

    Args:
        path: File of a `TrajectoryWriter`.
        chain_id: Yield only the trajectory with this id; the lines of others are not decoded.
    """
    path = _existing(Path(path))
    mark = b"" if chain_id is None else f'"chain_id":{json.dumps(chain_id)}'.encode()
    for number, line in whole_lines(path):
        if mark in line:
            where = f"{path}:{number}"
            record = read_record(line, where, kind=KIND, version=FORMAT_VERSION)
            del record["v"], record["kind"]
            if chain_id in (None, record.get("chain_id")):
                yield decode_trajectory(record, where=where)


def compact(path: str | Path) -> Path:
    """Replace a JSON lines file by a gzip file next to it, and return that file's path.

    The gzip file is a row of members of about a megabyte of text each, so that a single chain can
    be read without all that come before it. If it is killed at any moment, the old file, the new
    file, or both with the same contents remain; calling it again finishes.
    """
    path = Path(path)
    packed = _packed(path)
    if not path.exists() and packed.exists():
        return packed
    with whole_file(packed) as file:
        for member in _members(line for _, line in whole_lines(path)):
            # No time inside, so that equal contents give equal files.
            file.write(gzip.compress(member, mtime=0))
    path.unlink()
    return packed


def _members(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to pieces of about a megabyte; at least one, so that the file is a gzip file."""
    member = bytearray()
    for line in lines:
        if len(member) > MEMBER_BYTES:
            yield bytes(member)
            member.clear()
        member += line
    yield bytes(member)


def _packed(path: Path) -> Path:
    return path.with_name(path.name + ".gz")


def _existing(path: Path) -> Path:
    packed = _packed(path)
    return packed if packed.exists() and not path.exists() else path
