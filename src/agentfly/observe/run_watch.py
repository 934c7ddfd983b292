"""A run that is at work, followed from outside: what its files say now.

step 12/60  reward 0.61  solved 58%  …        each step and evaluation as it is logged
step 13: 17 chains done                       the chains of the step that is being sampled
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.run_list import describe_run, is_running
from agentfly.observe.run_progress import evaluation_line, step_line


@dataclass(slots=True)
class RunWatch:
    """Reads a run again and again, and returns only what is new."""

    run: RecordedRun
    _shown: int = field(default=0, init=False)
    """Records that were shown already."""

    def new_lines(self) -> Iterator[str]:
        """Yield the lines of steps and evaluations that were logged since the last call."""
        run = RecordedRun(self.run.path)  # nothing that it has cached is up to date
        total = run.planned_steps or run.step
        for record in run.records[self._shown :]:
            self._shown += 1
            if "eval/reward" in record.metrics:
                yield evaluation_line(record.step, record.metrics)
            else:
                yield step_line(record.step, total, record.metrics)

    def status(self) -> str:
        """Return what is under way now."""
        run = RecordedRun(self.run.path)
        open_files = [file for file in run.chain_files if not file.finished]
        if not open_files:
            return f"{run.name}: between two steps, after step {run.step}"
        file = open_files[-1]
        return f"{run.name}: {file.title}, {_lines(file.path)} chains done"

    @property
    def is_over(self) -> bool:
        """Whether no process works in the run's folder."""
        return not is_running(self.run)

    def last_line(self) -> str:
        """Return how the run ended."""
        entry = describe_run(RecordedRun(self.run.path))
        return f"{self.run.name}: {entry.state}, {entry.progress} steps"


def _lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:  # It was compacted meanwhile.
        return 0
