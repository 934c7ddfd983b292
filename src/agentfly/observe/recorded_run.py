"""A run's folder, read only: of a run that is finished, killed, or still at work.

Everything that looks at runs afterwards (report, `agentfly show`, lists of runs) reads them here.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError
from agentfly.observe.trackers.metrics_file import MetricsRecord, read_metrics
from agentfly.observe.trajectory_file import read_trajectories
from agentfly.runtime.names import suggestion
from agentfly.types import Trajectory

MARK = "run.json"
"""The file that every run has."""
RUNS = Path("runs")
"""The folder in which runs are looked up by their names alone."""
_CHAINS_FILE = re.compile(r"(step|eval)_(\d+)\.jsonl(\.gz)?")


def find_run(run: str | Path) -> "RecordedRun":
    """Return a run by its folder, or by its name in the folder `runs`."""
    for folder in (Path(run), RUNS / run):
        if (folder / MARK).is_file():
            return RecordedRun(folder)
    names = sorted(mark.parent.name for mark in RUNS.glob(f"*/{MARK}"))
    known = suggestion(str(run), names) if names else "There are none in the folder `runs`."
    raise ConfigError(f"there is no run {str(run)!r}: expected the folder of one. {known}")


@dataclass(frozen=True)
class RecordedRun:
    """The files of one run."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run, which is its folder's."""
        return self.path.resolve().name

    @cached_property
    def config(self) -> str:
        """Settings of the run as TOML; empty if they are lost."""
        try:
            return (self.path / "config.toml").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Settings as tables; empty if they can't be read."""
        try:
            return tomllib.loads(self.config)
        except tomllib.TOMLDecodeError:
            return {}

    @cached_property
    def records(self) -> list[MetricsRecord]:
        """Metrics of all steps and evaluations; FormatError if the file is damaged."""
        file = self.path / "metrics.jsonl"
        return read_metrics(file) if file.exists() else []

    @property
    def step(self) -> int:
        """The last step that was trained and logged."""
        return max((record.step for record in self.records), default=0)

    @property
    def planned_steps(self) -> int | None:
        """Number of steps that the settings ask for."""
        steps = self.settings.get("train", {}).get("steps")
        return steps if isinstance(steps, int) else None

    @cached_property
    def steps(self) -> list[int]:
        """Steps whose chains are in the folder, one that was not finished included."""
        return sorted({number for kind, number, _ in self._chain_files() if kind == "step"})

    @cached_property
    def evaluations(self) -> list[int]:
        """Steps after which an evaluation was finished."""
        return sorted(
            {number for kind, number, packed in self._chain_files() if kind == "eval" and packed}
        )

    def _chain_files(self) -> Iterator[tuple[str, int, bool]]:
        for path in (self.path / "trajectories").glob("*"):
            if found := _CHAINS_FILE.fullmatch(path.name):
                yield found[1], int(found[2]), found[3] is not None

    def chains(self, step: int) -> Iterator[Trajectory]:
        """Yield the chains of a training step, one at a time."""
        return self._read(f"step_{step}")

    def evaluation(self, step: int) -> Iterator[Trajectory]:
        """Yield the held-out chains of the weights after a step, one at a time."""
        return self._read(f"eval_{step}")

    def _read(self, name: str) -> Iterator[Trajectory]:
        return read_trajectories(self.path / "trajectories" / f"{name}.jsonl")

    def json_file(self, name: str) -> Any:
        """Return the content of one of the run's JSON files; None if there is none to be read."""
        try:
            return json.loads((self.path / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
