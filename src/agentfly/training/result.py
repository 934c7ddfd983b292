"""What a run of training came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentfly.observe import MetricsRecord, read_metrics


class StoppedBy(StrEnum):
    """Why a run ended well."""

    STEPS = "steps"
    """It took its last step."""
    TARGET = "target"
    """Its training reward reached the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """Where to find what was learnt."""

    folder: Path
    """The run's own folder."""
    steps: int
    stopped_by: StoppedBy

    @property
    def checkpoint(self) -> Path:
        """The folder of the last weights: a model that can be named like any other."""
        return self.folder / "checkpoints" / f"step_{self.steps}"

    @property
    def metrics(self) -> Sequence[MetricsRecord]:
        """What was measured at every step."""
        return read_metrics(self.folder / "metrics.jsonl")
