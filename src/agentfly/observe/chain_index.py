"""An index of a run's chains: one small row for each, and the place of the chain in its file.

runs/demo/index/step_3.jsonl
    {"v":1,"kind":"chain_index","file":"step_3.jsonl.gz","size":9120,"changed":17640...}
    {"v":1,"kind":"chain_index","place":[0,0,1840],"crc":12345,"chain_id":"t/0/0", ...}

It is made piece by piece, as it is asked for, and never holds a whole chain. An index that was cut
is continued; one of another or a changed file is made again. Where its folder can't be written, or
another process writes it, it is kept in memory alone.
"""

import threading
import time
import zlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from agentfly.errors import AgentFlyError, FormatError
from agentfly.observe.chain_filter import first_version
from agentfly.observe.chain_place import BEGINNING, Place, placed_lines, read_line
from agentfly.observe.chain_text import question
from agentfly.observe.recorded_run import ChainFile, RecordedRun
from agentfly.observe.trajectory_file import FORMAT_VERSION as CHAIN_VERSION
from agentfly.observe.trajectory_file import KIND as CHAIN_KIND
from agentfly.observe.trajectory_file import decode_trajectory
from agentfly.runtime.journal import Journal, read_record, read_records, require_record
from agentfly.types import Trajectory
from agentfly.types.short_text import printable, shorten

FORMAT_VERSION = 1
KIND = "chain_index"
FOLDER = "index"
NO_NAME = "(none)"
"""Tool of a call in which no name could be read."""
QUESTION_CHARACTERS = 160
"""Maximum length of a question in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """A chain as one row: enough to find, sort and count it without reading it.

    Its texts are printable: an id with a control character is known by the one that replaces it.
    """

    place: Place
    crc: int
    """CRC-32 of the chain's line."""
    chain_id: str
    group_id: str
    task: str
    reward: float | None
    stop: str
    cause: str
    """Type of the error of a chain that failed; otherwise empty."""
    turns: int
    tokens: int
    """Sampled tokens."""
    tools: Mapping[str, Mapping[str, int]]
    """Calls by tool and status: `{"search": {"ok": 2, "error": 1}}`."""
    seconds: Mapping[str, float]
    """Time by kind of span."""
    longest: tuple[str, str, float]
    """Kind, name and seconds of the longest span other than generation."""
    version: int | None
    """Version of the weights that sampled its first token."""
    question: str

    @classmethod
    def of(cls, chain: Trajectory, place: Place, line: bytes) -> "IndexRow":
        """Make the row of a chain."""
        turns = chain.turns
        completions = [turn.completion for turn in turns if turn.completion]
        return cls(
            place=place,
            crc=zlib.crc32(line),
            chain_id=printable(chain.chain_id),
            group_id=printable(chain.group_id),
            task=printable(chain.task.id),
            reward=chain.reward,
            stop=str(chain.stop),
            cause=shorten((chain.error or "").partition(":")[0], 80),
            turns=len(turns),
            tokens=sum(len(completion.token_ids) for completion in completions),
            tools=_tools(chain),
            seconds=_seconds(chain),
            longest=_longest(chain),
            version=first_version(chain),
            question=shorten(question(chain), QUESTION_CHARACTERS),
        )

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "IndexRow":
        """Read a record of an index file; TypeError or ValueError if it is none."""
        fields = {name: value for name, value in record.items() if name not in ("v", "kind")}
        place, longest = fields.pop("place"), fields.pop("longest")
        return cls(place=Place(*place), longest=tuple(longest), **fields)

    @property
    def calls(self) -> int:
        """Number of tool calls."""
        return sum(count for statuses in self.tools.values() for count in statuses.values())

    @property
    def failed_calls(self) -> int:
        """Number of tool calls that did not succeed."""
        return self.calls - sum(statuses.get("ok", 0) for statuses in self.tools.values())


def _tools(chain: Trajectory) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for turn in chain.turns:
        for call, result in turn.call_results:
            of_tool = counts.setdefault(shorten(call.name, 80) or NO_NAME, {})
            of_tool[result.status] = of_tool.get(result.status, 0) + 1
    return counts


def _seconds(chain: Trajectory) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for span in chain.spans:
        seconds[span.kind] = round(seconds.get(span.kind, 0.0) + span.seconds, 4)
    return seconds


def _longest(chain: Trajectory) -> tuple[str, str, float]:
    waits = [span for span in chain.spans if span.kind != "generate"]
    if not waits:
        return "", "", 0.0
    span = max(waits, key=lambda span: span.seconds)
    return str(span.kind), shorten(span.name, 80), round(span.seconds, 4)


class FileIndex:
    """The index of one file of chains."""

    def __init__(self, file: ChainFile, folder: Path) -> None:
        self.file = file
        self.rows: list[IndexRow] = []
        self.problem = ""
        """Why some of its chains can't be shown."""
        self.stem = file.path.name.partition(".")[0]
        self._path = folder / f"{self.stem}.jsonl"
        self._identity = _identity(file.path)
        self._next = BEGINNING
        self._whole = False
        self._lines: Generator[tuple[Place, bytes], None, None] | None = None
        self._journal: Journal | None = None
        self._loaded = False

    @property
    def total_bytes(self) -> int:
        """Size of the file."""
        return self.file.size

    @property
    def done_bytes(self) -> int:
        """Bytes of it that are indexed, about."""
        if self._whole:
            return self.total_bytes
        return self._next.member if self.file.finished else self._next.start

    def is_stale(self) -> bool:
        """Return whether the file is no longer the one that was indexed."""
        return self._identity != _identity(self.file.path)

    def extend(self, deadline: float, rows: float = inf) -> bool:
        """Index further chains; return whether all are.

        Args:
            deadline: Time of the monotonic clock at which it stops.
            rows: Number of rows at which it stops, too.
        """
        if not self._loaded:
            self._load()
            self._loaded = True
        if self._whole and self.file.finished:
            return True
        try:
            self._whole = self._extend(deadline, rows)
        except (OSError, FormatError) as error:
            self.problem, self._whole = str(error), True
        if self._whole:
            self.close()
        return self._whole

    def _extend(self, deadline: float, rows: float) -> bool:
        # Both stay open until the file is whole: to begin again costs as much as many chains.
        self._lines = self._lines or placed_lines(self.file.path, self._next)
        self._journal = self._journal or self._open_journal()
        for place, line in self._lines:
            self._next = place.after
            if (row := self._row(place, line)) is not None:
                self._keep(row)
            if time.monotonic() > deadline or len(self.rows) >= rows:
                return False
        if self._journal is not None and self.file.finished:
            self._journal.append({"whole": True})
        return True

    def _keep(self, row: IndexRow) -> None:
        self.rows.append(row)
        if self._journal is not None:
            self._journal.append({**asdict(row), "place": _triple(row.place)})

    def close(self) -> None:
        """Close its files; `extend` opens them again."""
        if self._lines is not None:
            self._lines.close()
        if self._journal is not None:
            self._journal.close()
        self._lines = self._journal = None

    def _row(self, place: Place, line: bytes) -> IndexRow | None:
        try:
            return IndexRow.of(decode_line(line, str(self.file.path)), place, line)
        except FormatError as error:
            self.problem = str(error)
            return None

    def _load(self) -> None:
        """Read the rows of the index file, if it belongs to this very file."""
        try:
            records = [
                record for _, record in read_records(self._path, kind=KIND, version=FORMAT_VERSION)
            ]
            head = {"v": FORMAT_VERSION, **self._identity}
            if not records or {key: records[0].get(key) for key in head} != head:
                return
            rows = [IndexRow.read(record) for record in records[1:] if "place" in record]
        except (OSError, FormatError, LookupError, TypeError, ValueError):
            return
        if rows and not _holds(self.file.path, rows[-1]):
            return
        self.rows = rows
        self._next = rows[-1].place.after if rows else BEGINNING
        self._whole = "whole" in records[-1]

    def _open_journal(self) -> Journal | None:
        """Open the index file for appending; None where this process can't write it."""
        try:
            if not self.rows:
                self._path.unlink(missing_ok=True)
            journal = Journal(self._path, kind=KIND, version=FORMAT_VERSION)
        except (OSError, AgentFlyError):
            return None
        if not self.rows:
            journal.append(self._identity)
        return journal


def decode_line(line: bytes, where: str) -> Trajectory:
    """Return the chain of a line of a file of chains; FormatError if it is none."""
    try:
        # Four times as fast as the standard library's, and most of the time goes here.
        record = require_record(from_json(line), where, kind=CHAIN_KIND, version=CHAIN_VERSION)
    except ValueError:  # Also for half of a surrogate pair, which that parser does not take.
        record = read_record(line, where, kind=CHAIN_KIND, version=CHAIN_VERSION)
    del record["v"], record["kind"]
    return decode_trajectory(record, where=where)


def _triple(place: Place) -> tuple[int, int, int]:
    return place.member, place.start, place.length


def _holds(path: Path, row: IndexRow) -> bool:
    """Return whether a file still holds a chain where its row says."""
    try:
        return zlib.crc32(read_line(path, row.place)) == row.crc
    except (OSError, FormatError):
        return False


def _identity(path: Path) -> dict[str, Any]:
    """Return values that differ for another file of the same name; a plain file may grow."""
    try:
        stat = path.stat()
    except OSError:
        return {"file": path.name, "size": -1, "changed": -1}
    if path.suffix != ".gz":
        return {"file": path.name, "size": -1, "changed": stat.st_ino}
    return {"file": path.name, "size": stat.st_size, "changed": stat.st_mtime_ns}


class RunIndex:
    """The index of all chains of a run. Its methods may be called from any thread."""

    def __init__(self, run: RecordedRun) -> None:
        self._path = run.path
        self._files: dict[str, FileIndex] = {}
        self._lock = threading.Lock()

    def refresh(self, seconds: float, *, rows: int | None = None, file: str = "") -> None:
        """Index what is new, the last steps first.

        Args:
            seconds: Maximum time.
            rows: Number of rows in the index at which it stops, too.
            file: Stem of the only file to index; by default all.
        """
        deadline, left = time.monotonic() + seconds, inf if rows is None else rows
        with self._lock:
            self._look()
            for index in reversed(list(self._files.values())):
                if file and index.stem != file:
                    continue
                if not index.extend(deadline, left) or time.monotonic() > deadline:
                    return
                left -= len(index.rows)
                if left <= 0:
                    return

    def _look(self) -> None:
        """Find files that came, went or were replaced."""
        files = {file.path.name: file for file in RecordedRun(self._path).chain_files}
        before = self._files
        self._files = {
            name: self._kept(name) or FileIndex(file, self._path / FOLDER)
            for name, file in files.items()
        }
        for name, index in before.items():
            if self._files.get(name) is not index:
                index.close()

    def close(self) -> None:
        """Close all files; nothing that was indexed is lost."""
        with self._lock:
            for index in self._files.values():
                index.close()

    def _kept(self, name: str) -> FileIndex | None:
        known = self._files.get(name)
        return None if known is None or known.is_stale() else known

    def rows(self) -> Iterator[tuple[ChainFile, IndexRow]]:
        """Yield all rows that are there, in the order of the run."""
        for index in list(self._files.values()):
            for row in list(index.rows):
                yield index.file, row

    def read(self, file: str, chain_id: str) -> Trajectory | None:
        """Return one chain of a file, which is read alone; None if it is not there."""
        index = self._files.get(file)
        rows = () if index is None else list(index.rows)
        row = next((row for row in rows if row.chain_id == chain_id), None)
        if index is None or row is None:
            return None
        return decode_line(read_line(index.file.path, row.place), str(index.file.path))

    @property
    def share(self) -> float:
        """Share of the files' bytes that are indexed."""
        files = list(self._files.values())
        total = sum(index.total_bytes for index in files)
        return min(1.0, sum(index.done_bytes for index in files) / total) if total else 1.0

    @property
    def problems(self) -> list[str]:
        """Reasons why some chains are not in the index."""
        return [index.problem for index in list(self._files.values()) if index.problem]
