"""What a run of training came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentfly.observe import MetricsRecord, read_metrics
from agentfly.training.checkpoint import Checkpoints


class StoppedBy(StrEnum):
    """Why a run ended well."""

    STEPS = "steps"
    """It took its last step."""
    TARGET = "target"
    """Its training reward reached the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """Where to find what was learned."""

    folder: Path
    """The run's own folder."""
    steps: int
    stopped_by: StoppedBy

    @property
    def checkpoint(self) -> Path:
        """The folder of the last weights, with the state of the trainer beside them."""
        return self.folder / "checkpoints" / f"step_{self.steps}"

    @property
    def best(self) -> Path | None:
        """The folder of the weights with the highest held-out reward; None without evaluation."""
        found = Checkpoints(self.folder / "checkpoints").best()
        return found.path if found else None

    @property
    def model(self) -> Path:
        """The trained model: the last checkpoint, or its adapters merged into a plain folder."""
        merged = self.folder / "model"
        return merged if merged.exists() else self.checkpoint

    @property
    def metrics(self) -> Sequence[MetricsRecord]:
        """What was measured at every step."""
        return read_metrics(self.folder / "metrics.jsonl")
