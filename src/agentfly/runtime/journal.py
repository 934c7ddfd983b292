"""Append-only records on disk: one JSON line each, whole or not at all.

A record is committed by its newline. What a crash left after the last newline is a torn tail:
readers skip it, and the next writer cuts it off, so that it is never mixed with the next line.

    {"v":1,"kind":"trajectory","chain_id":"t/0/0", ...}
    {"v":1,"kind":"trajectory","chain_id":"t/0/1", ...}
    {"v":1,"kind":"trajec                                ← torn

Journals that a run is restored from have a checksum at the end of each line, so that a flipped bit
is noticed even where the line is still JSON.
"""

import base64
import gzip
import io
import json
import logging
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import lock_descriptor

from agentfly.errors import ConfigError, FormatError

KEY = "crc"
"""The last key of a line that has a checksum."""

_END = re.compile(rb',"crc":"([0-9a-f]{8})"\}\s*\Z')


def add_checksum(line: bytes) -> bytes:
    """Return a JSON object with the CRC-32 of its text as its last value.

    >>> line = add_checksum(b'{"v":2,"step":4}')
    >>> line
    b'{"v":2,"step":4,"crc":"d2feda98"}'
    >>> has_valid_checksum(line), has_valid_checksum(line.replace(b"4", b"0", 1))
    (True, False)
    """
    return b'%s,"%s":"%08x"}' % (line[:-1], KEY.encode(), zlib.crc32(line))


def has_valid_checksum(line: bytes) -> bool:
    """Return whether a line has a checksum, and is as it was written."""
    found = _END.search(line)
    return found is not None and zlib.crc32(line[: found.start()] + b"}") == int(found[1], 16)


BLOCK = 1 << 16
"""Bytes read at once while looking back for the last newline."""

_log = logging.getLogger(__name__)


class Journal:
    """A file that one process appends to.

    Each record reaches the operating system before `append` returns, so it outlives this process,
    even after `kill -9`; `sync` makes all of them outlive the machine. The text is ASCII: any
    string survives, lone surrogates included. With `checksums`, each line ends with its own.
    """

    def __init__(
        self, path: str | Path, *, kind: str, version: int, checksums: bool = False
    ) -> None:
        self.path = Path(path)
        self._head = {"v": version, "kind": kind}
        self._checksums = checksums
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b", buffering=0)
        try:
            _lock(self._file, self.path)
            self._size = _cut_torn_tail(self._file, self.path)
        except BaseException:
            self._file.close()
            raise
        sync_folder(self.path.parent)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record in one piece; if the disk is full, leave no part of it behind."""
        record = {**self._head, **record}
        line = json.dumps(record, default=plain, separators=(",", ":")).encode("ascii")
        line = (add_checksum(line) if self._checksums else line) + b"\n"
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(line)

    def sync(self) -> None:
        """Wait until the disk holds all that was appended."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync, and let others write. Closing twice does nothing."""
        if not self._file.closed:
            with self._file:
                self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def plain(value: object) -> Any:
    r"""Convert a value that JSON has no type for: the `default` of `json.dumps`.

    A dataclass becomes an object of its fields, bytes become base64.

    >>> json.dumps({"data": b"\x00\xff"}, default=plain)
    '{"data": "AP8="}'
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise ConfigError(
        f"a {type(value).__name__} can't be saved: expected text, a number, a boolean, None, a "
        "list or a dict. Convert it where it is made"
    )


def _lock(file: io.FileIO, path: Path) -> None:
    """Keep a second writer out: it would take this one's half-written line for a torn tail."""
    if sys.platform == "win32":
        return  # A lock there would keep readers out, too.
    try:
        # Of this very descriptor: a lock file next to the journal would be one more file of a run.
        is_locked = lock_descriptor(file.fileno(), blocking=False)
    except OSError as error:
        _log.debug("%s: this file system can't lock files: %s", path, error)
        return
    if not is_locked:
        raise ConfigError(
            f"{path} is being written by another process: two runs can't share a folder. "
            "Wait until it ends, or give this run another name"
        )


def _cut_torn_tail(file: io.FileIO, path: Path) -> int:
    size = file.seek(0, os.SEEK_END)
    whole = _end_of_last_line(file, size)
    if whole < size:
        _log.warning("%s: cut off %d bytes of an unfinished last line", path, size - whole)
        file.truncate(whole)
    return whole


def _end_of_last_line(file: io.FileIO, size: int) -> int:
    end = size
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def read_records(
    path: str | Path, *, kind: str, version: int, checksums_from: int | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each record with the number of its line; a torn last line is skipped.

    A broken line before the last, another kind or a newer version is a FormatError. From the
    version `checksums_from` on, a line needs a checksum, and it must be right.
    """
    read = partial(read_record, kind=kind, version=version, checksums_from=checksums_from)
    for number, line in whole_lines(path):
        yield number, read(line, f"{path}:{number}")


def whole_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield the committed lines of a file, or of a gzip file, numbered from 1."""
    with _open(Path(path)) as file:
        number = 0
        try:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    _log.warning("%s:%d: skipped an unfinished last line", path, number)
                    return
                yield number, line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(
                f"{path} is damaged after line {number}: {error}. Restore it, or delete it to go "
                "on without what it holds"
            ) from error


def _open(path: Path) -> io.BufferedReader | gzip.GzipFile:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def read_record(
    line: bytes, where: str, *, kind: str, version: int, checksums_from: int | None = None
) -> dict[str, Any]:
    """Read one line of a journal; `where` is named in errors, as file and line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not JSON: {error}. {_way_out(checksums_from)}") from error
    if checksums_from is not None:
        _require_checksum(line, record, where, checksums_from)
    return require_record(record, where, kind=kind, version=version, checksums_from=checksums_from)


def require_record(
    record: object, where: str, *, kind: str, version: int, checksums_from: int | None = None
) -> dict[str, Any]:
    """Return the value of a line if it is a record of this kind and version, else FormatError."""
    if not isinstance(record, dict) or record.get("kind") != kind:
        found = record.get("kind") if isinstance(record, dict) else type(record).__name__
        raise FormatError(
            f"{where} is not a record of kind {kind!r}: got {found!r}. {_way_out(checksums_from)}"
        )
    written = record.get("v")
    if not isinstance(written, int) or written < 1:
        raise FormatError(
            f"{where} has no format version: expected `v` from 1, got {written!r}. "
            f"{_way_out(checksums_from)}"
        )
    if written > version:
        raise FormatError(
            f"{where} was written in format {written} of {kind!r} by a newer AgentFly; this one "
            f"reads up to {version}. Upgrade: pip install --upgrade agentfly"
        )
    return record


def _require_checksum(line: bytes, record: object, where: str, first: int) -> None:
    """Refuse a line with a wrong checksum, or without one where its version has them."""
    if has_valid_checksum(line):
        assert isinstance(record, dict), "the checksum is a value of an object"
        del record[KEY]
        return
    version = record.get("v") if isinstance(record, dict) else None
    older = isinstance(version, int) and version < first
    if not older or (isinstance(record, dict) and KEY in record):
        raise FormatError(f"{where} is damaged: its checksum is wrong. {_way_out(first)}")


def _way_out(checksums_from: int | None) -> str:
    if checksums_from is None:
        return "Delete this line to go on without it"
    return "Restore the file from a copy"


def sync_folder(folder: Path) -> None:
    """Make new, renamed and deleted names in a folder outlive the machine."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
