"""The metrics file that every run has: one JSON line per step.

{"v":2,"kind":"metrics","step":3,"time":1794056702.1,"metrics":{"reward/mean":0.61, …},"crc":"…"}
"""

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentfly.errors import FormatError
from agentfly.observe.trajectory_file import Decoder
from agentfly.observe.whole_file import whole_file
from agentfly.runtime.journal import Journal, read_record, read_records, whole_lines

KIND = "metrics"
FORMAT_VERSION = 2
CHECKSUMS_FROM = 2
DAMAGED = ".damaged"
"""Suffix of the copy of a file that has unreadable lines."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsRecord:
    """Metrics of one step."""

    step: int
    time: float
    """Unix time in seconds."""
    metrics: Mapping[str, float]


class MetricsFile:
    """A tracker that appends to a file; each written line survives the process.

    `resume_after` is the step of the checkpoint that a run continues from: lines of later steps are
    dropped, because those steps are repeated. Lost or damaged lines only cause a warning.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        resume_after: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if resume_after is not None:
            _keep_up_to(resume_after, Path(path))
        self._journal = Journal(path, kind=KIND, version=FORMAT_VERSION, checksums=True)
        self._now = now

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Append the metrics of a step."""
        self._journal.append({"step": step, "time": self._now(), "metrics": dict(metrics)})

    def close(self) -> None:
        """Sync the file and release its lock. Closing twice does nothing."""
        self._journal.close()


def read_metrics(path: str | Path) -> list[MetricsRecord]:
    """Return all records of a file in logged order."""
    records = read_records(path, kind=KIND, version=FORMAT_VERSION, checksums_from=CHECKSUMS_FROM)
    return [_decoded(record, f"{path}:{number}") for number, record in records]


def _decoded(record: dict[str, object], where: str) -> MetricsRecord:
    about = {key: value for key, value in record.items() if key not in ("v", "kind")}
    return _DECODER.decode(about, where=where)


_DECODER = Decoder(MetricsRecord)


def _keep_up_to(step: int, path: Path) -> None:
    """Rewrite the file without later steps and without unreadable lines."""
    kept: list[bytes] = []
    missing, damaged = set(range(1, step + 1)), []
    for number, line in whole_lines(path) if path.exists() else ():
        try:
            logged = _read(line, f"{path}:{number}").step
        except FormatError as error:
            damaged.append(str(error))
            continue
        if logged <= step:
            kept.append(line)
            missing.discard(logged)
    if damaged:
        _set_aside(path, damaged)
    if missing:
        _log.warning(
            "%s has no line of %d of the %d steps before this one, the first of them step %d: "
            "they are lost, and the run goes on without them",
            *(path, len(missing), step, min(missing)),
        )
    with whole_file(path) as file:
        file.writelines(kept)


def _read(line: bytes, where: str) -> MetricsRecord:
    record = read_record(
        line, where, kind=KIND, version=FORMAT_VERSION, checksums_from=CHECKSUMS_FROM
    )
    return _decoded(record, where)


def _set_aside(path: Path, damaged: list[str]) -> None:
    copy = path.with_name(path.name + DAMAGED)
    shutil.copyfile(path, copy)
    _log.warning(
        "%d lines of %s can't be read, and the run goes on without them; the file as it was is %s. "
        "The first: %s",
        *(len(damaged), path, copy, damaged[0]),
    )
