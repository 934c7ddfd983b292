"""TensorBoard: event files in the run's folder. `tensorboard --logdir runs` compares all runs."""

import time
from collections.abc import Mapping
from typing import Any

from agentfly.observe.trackers.tracked_run import TrackedRun, import_tracker


class TensorBoard:
    """Writes scalars by the package's own file writer: neither torch nor TensorFlow is imported."""

    def __init__(self, run: TrackedRun) -> None:
        self._event = _import("compat.proto.event_pb2")
        self._summary = _import("compat.proto.summary_pb2").Summary
        writer = _import("summary.writer.event_file_writer")
        self._writer = writer.EventFileWriter(str(run.folder / "tensorboard"))
        if run.resume_after is not None:
            # TensorBoard then drops steps from this one on that earlier files contain.
            start = self._event.SessionLog(status=self._event.SessionLog.START)
            self._add(run.resume_after + 1, session_log=start)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write one scalar for each metric, and flush: a killed run keeps its curves."""
        values = [self._summary.Value(tag=n, simple_value=v) for n, v in metrics.items()]
        self._add(step, summary=self._summary(value=values))
        self._writer.flush()

    def close(self) -> None:
        """Stop the writer's thread."""
        self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.add_event(self._event.Event(wall_time=time.time(), step=step, **content))


def _import(module: str) -> Any:
    return import_tracker("tensorboard", extra="train", module=f"tensorboard.{module}")
