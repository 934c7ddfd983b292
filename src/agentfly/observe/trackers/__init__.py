"""Trackers of a run's metrics: always a plain file, and any others that the settings name."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agentfly.errors import AgentFlyError, ConfigError, FormatError, boundary
from agentfly.observe.trackers.metrics_file import MetricsFile, MetricsRecord, read_metrics
from agentfly.observe.trackers.mlflow import MLflow
from agentfly.observe.trackers.tensorboard import TensorBoard
from agentfly.observe.trackers.tracked_run import TrackedRun
from agentfly.observe.trackers.trackio import Trackio
from agentfly.observe.trackers.wandb import Wandb
from agentfly.runtime.names import look_up
from agentfly.types import Tracker

__all__ = ["MetricsFile", "MetricsRecord", "Trackers", "open_trackers", "read_metrics"]


TRACKERS: Mapping[str, Callable[[TrackedRun], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "mlflow": MLflow,
    "trackio": Trackio,
}
WAYS_OUT = {
    "wandb": "Run `wandb login`, set WANDB_MODE=offline",
    "mlflow": "Set MLFLOW_TRACKING_URI to your server, install the whole of `mlflow`",
}

_log = logging.getLogger(__name__)


class Trackers:
    """Logs to the metrics file, which must succeed, and to others, which may fail.

    Only finite numbers are logged. A tracker that raises causes one warning; the run goes on.
    """

    def __init__(self, file: MetricsFile, others: Mapping[str, Tracker]) -> None:
        self._file = file
        self._others = {name: _Guarded(name, tracker) for name, tracker in others.items()}

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics of a step to all trackers."""
        finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        self._file.log(finite, step)
        for tracker in self._others.values():
            tracker.log(finite, step)

    def close(self) -> None:
        """Close all trackers. Closing twice does nothing."""
        self._file.close()
        while self._others:
            _, tracker = self._others.popitem()
            tracker.close()


class _Guarded:
    def __init__(self, name: str, tracker: Tracker) -> None:
        self._name = name
        self._tracker = tracker
        self._warned = False

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._try("logging", lambda: self._tracker.log(metrics, step))

    def close(self) -> None:
        self._try("closing", self._tracker.close)

    def _try(self, doing: str, act: Callable[[], None]) -> None:
        try:
            with boundary(AgentFlyError, f"{doing} the tracker {self._name!r}"):
                act()
        except AgentFlyError as error:
            if not self._warned:
                _log.warning("%s. The run goes on; its metrics are in metrics.jsonl", error)
            self._warned = True


def open_trackers(
    folder: Path,
    *,
    names: Sequence[str],
    project: str,
    run: str,
    settings: Mapping[str, Any],
    resume_after: int | None = None,
) -> Trackers:
    """Open `metrics.jsonl` in a run's folder, and the trackers of these names.

    Args:
        folder: Folder of the run.
        names: Names among tensorboard, wandb, mlflow and trackio.
        project: Project name in trackers.
        run: Name of the run.
        settings: Settings as JSON values, shown next to the curves.
        resume_after: The step of the checkpoint that the run continues from; None for a new run.
    """
    tracked = TrackedRun(
        folder=folder, name=run, project=project, settings=settings, resume_after=resume_after
    )
    others: dict[str, Tracker] = {}
    with ExitStack() as opened:
        file = MetricsFile(folder / "metrics.jsonl", resume_after=resume_after)
        opened.callback(file.close)
        for name in dict.fromkeys(names):
            others[name] = _open(name, tracked)
            opened.callback(others[name].close)
        opened.pop_all()
    return Trackers(file, others)


def _open(name: str, run: TrackedRun) -> Tracker:
    opener = look_up(name, TRACKERS, "tracker")
    try:
        with boundary(ConfigError, f"opening the tracker {name!r}"):
            return opener(run)
    except FormatError:
        raise
    except ConfigError as error:
        way_out = WAYS_OUT.get(name, "Fix that")
        raise ConfigError(f"{error}. {way_out}, or take it out of `track.trackers`") from error
