"""Metrics as plain lines: what every run has, whatever else tracks it.

{"v":1,"kind":"metrics","step":3,"time":1794056702.1,"metrics":{"reward/mean":0.61, …}}
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentfly.observe.whole_file import whole_file
from agentfly.runtime.journal import Journal, read_records, whole_lines

KIND = "metrics"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsRecord:
    """What one step logged."""

    step: int
    time: float
    """Seconds since 1970."""
    metrics: Mapping[str, float]


class MetricsFile:
    """A tracker that appends to a file; each line outlives the process as soon as it is written.

    `resume_after` is the step of the checkpoint that a run continues from: what was logged of later
    steps is dropped, because those steps are done again.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        resume_after: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if resume_after is not None and Path(path).exists():
            _drop_after(resume_after, Path(path))
        self._journal = Journal(path, kind=KIND, version=FORMAT_VERSION)
        self._now = now

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Append the metrics of a step."""
        self._journal.append({"step": step, "time": self._now(), "metrics": dict(metrics)})

    def close(self) -> None:
        """Sync, and let others write. Closing twice does nothing."""
        self._journal.close()


def read_metrics(path: str | Path) -> list[MetricsRecord]:
    """Read all records of a file, in the order in which they were logged."""
    return [
        MetricsRecord(step=record["step"], time=record["time"], metrics=record["metrics"])
        for _, record in read_records(path, kind=KIND, version=FORMAT_VERSION)
    ]


def _drop_after(step: int, path: Path) -> None:
    """Write the file anew without later steps."""
    records = read_records(path, kind=KIND, version=FORMAT_VERSION)
    kept = {number for number, record in records if record["step"] <= step}
    with whole_file(path) as file:
        file.writelines(line for number, line in whole_lines(path) if number in kept)
