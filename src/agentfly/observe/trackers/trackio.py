"""Trackio (`pip install agentfly[trackio]`): local first; `trackio show` opens its page."""

from collections.abc import Mapping

from agentfly.observe.trackers.tracked_run import TrackedRun, import_tracker


class Trackio:
    """Logs to one Trackio run, identified by its name."""

    def __init__(self, run: TrackedRun) -> None:
        self._run = import_tracker("trackio", extra="trackio").init(
            project=run.project,
            name=run.name,
            config=dict(run.settings),
            resume="never" if run.resume_after is None else "allow",
            embed=False,
        )

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics of a step."""
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Write pending metrics and finish the run."""
        self._run.finish()
