"""The result of a training run, and the target reward that may end it early."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentfly.observe import MetricsRecord, read_metrics
from agentfly.observe.findings import Finding, has_learned, read_findings
from agentfly.observe.run_folder import FINDINGS, METRICS
from agentfly.training.checkpoint import Checkpoints


class StoppedBy(StrEnum):
    """Reason why a run ended normally."""

    STEPS = "steps"
    """It took its last step."""
    TARGET = "target"
    """Its training reward reached the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """The folder of a finished run, with its checkpoints, model and metrics."""

    folder: Path
    """The run's own folder."""
    steps: int
    stopped_by: StoppedBy

    def __str__(self) -> str:
        """Return steps, held-out rewards if there are any, and where the model is."""
        path = self.folder / "metrics.jsonl"
        held_out = [
            record.metrics["eval/reward"]
            for record in (read_metrics(path) if path.exists() else ())
            if "eval/reward" in record.metrics
        ]
        rewards = " to ".join(f"{reward:.2f}" for reward in (held_out[:1] + held_out[1:][-1:]))
        return (
            f"{self.steps} steps in {self.folder}, ended by its {self.stopped_by}"
            + (f", held-out reward {rewards}" if rewards else "")
            + f"\nmodel: {self.model}"
        )

    @property
    def checkpoint(self) -> Path:
        """The folder of the last weights, with the state of the trainer next to them."""
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
    def findings(self) -> Sequence[Finding]:
        """Findings about what kept the run from learning, each with the way out."""
        return read_findings(self.folder / FINDINGS)

    @property
    def learned(self) -> bool:
        """Whether any update has changed the weights; True where no metrics are left to say so."""
        return not (self.folder / METRICS).exists() or has_learned(self.metrics)

    @property
    def metrics(self) -> Sequence[MetricsRecord]:
        """Metrics of every step."""
        return read_metrics(self.folder / METRICS)


class Target:
    """Reached once the mean training reward of the last few steps is high enough.

    Held-out rewards are never looked at: a run that stopped by them would have chosen its own
    result.

    >>> target = Target(0.8, window=2)
    >>> for reward in (0.9, 0.6, 0.9, 0.8):
    ...     target.take(reward)
    ...     print(target.reached)
    False
    False
    False
    True
    """

    def __init__(self, reward: float | None, *, window: int, earlier: Iterable[float] = ()) -> None:
        self._reward = reward
        self._last = deque(earlier, maxlen=window)

    def take(self, reward: float | None) -> None:
        """Take in the reward of one more step; a step without scored chains counts for nothing."""
        if reward is not None:
            self._last.append(reward)

    @property
    def reached(self) -> bool:
        """Whether the run can end."""
        if self._reward is None or len(self._last) < (self._last.maxlen or 0):
            return False
        return sum(self._last) / len(self._last) >= self._reward
