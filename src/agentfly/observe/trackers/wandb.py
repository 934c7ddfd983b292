"""Weights & Biases (`pip install agentfly[wandb]`); `WANDB_MODE=offline` needs no account."""

import secrets
from collections.abc import Mapping

from agentfly.observe.trackers.tracked_run import TrackedRun, import_tracker


class Wandb:
    """Logs to one W&B run, the same one after a resume."""

    def __init__(self, run: TrackedRun) -> None:
        self._run = import_tracker("wandb", extra="wandb").init(
            project=run.project,
            name=run.name,
            id=run.identity("wandb", lambda: secrets.token_hex(4)),
            resume="allow",
            dir=str(run.folder),
            config=dict(run.settings),
        )
        # W&B's own step may never decrease, as ours does when a run is resumed.
        self._run.define_metric("*", step_metric="step")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics of a step."""
        self._run.log({**metrics, "step": step})

    def close(self) -> None:
        """Upload pending metrics and finish the run."""
        self._run.finish()
