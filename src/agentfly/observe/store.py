"""Trajectories on disk: JSON lines while a step is live, then one compact file for the step."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from agentfly.errors import ConfigError
from agentfly.observe.record import FORMAT_VERSION, decode_trajectory, encode_trajectory
from agentfly.observe.whole_file import whole_file
from agentfly.runtime.journal import Journal, read_records, whole_lines
from agentfly.types import Group, Trajectory

KIND = "trajectory"


class TrajectoryWriter:
    """Appends finished chains to a file, one line each.

    Every line is handed to the operating system whole, in one write, before `write` returns: it
    outlives this process, `kill -9` included. `sync` and `close` make it outlive the machine. A
    line that a crash cut short is cut off when the file is opened again, with a warning in the log.

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
        """Sync, and let others write. Closing twice does nothing."""
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


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """Yield the trajectories of a file in the order in which they were written.

    The path of a file that has been compacted since is good still. An unfinished last line is
    skipped with a warning in the log; any other broken line is a FormatError that names it.
    """
    path = _existing(Path(path))
    for number, record in read_records(path, kind=KIND, version=FORMAT_VERSION):
        del record["v"], record["kind"]
        yield decode_trajectory(record, where=f"{path}:{number}")


def compact(path: str | Path) -> Path:
    """Replace a JSON lines file by a gzip file beside it, and return that file's path.

    Killed at any moment, it leaves the old file, the new file, or both with the same contents;
    calling it again finishes the job.
    """
    path = Path(path)
    packed = _packed(path)
    if not path.exists() and packed.exists():
        return packed
    # No name and no time inside, so that equal contents give equal files.
    with whole_file(packed) as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.writelines(line for _, line in whole_lines(path))
    path.unlink()
    return packed


def _packed(path: Path) -> Path:
    return path.with_name(path.name + ".gz")


def _existing(path: Path) -> Path:
    packed = _packed(path)
    return packed if packed.exists() and not path.exists() else path
