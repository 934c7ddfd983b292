"""Progress of a run on the terminal.

    step 12/60  reward 0.61  solved 58%  tool errors 3%  812 tok/s  gen 4.1s  tools 0.2s  train 6.0s
    eval step 10  reward 0.71 [0.62, 0.80]  solved 68%  pass@4 92%  out of time 3%
    run     ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  12/60  0:02:07 left 0:08:30
    step 13 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  17/64

Bars are shown on terminals only; a file or a pipe gets one plain line per step, and every thirty
seconds without one a line such as

    step 13: 17 of 64 chains done, 2:07 since the start
"""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeftColumn
from rich.text import Text

from agentfly.observe.chain_text import readable
from agentfly.observe.estimate import interval_text
from agentfly.observe.heartbeat import FIRST_SECONDS, SECONDS, Heartbeat
from agentfly.observe.time_left import minutes


class RunProgress:
    """One bar for the run, one for the chains of the step, and a line for each finished step.

    with RunProgress() as progress:
        progress.start(60)
        progress.step_started(1, chains=64)
        progress.chains_done(8)
        progress.step_done(1, metrics)
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        quiet: bool = False,
        first: float = FIRST_SECONDS,
        seconds: float = SECONDS,
    ) -> None:
        self._console = console or Console(quiet=quiet)
        self._total = 0
        self._started = time.monotonic()
        self._doing = "loading"
        self._expected = self._done = 0
        self._evaluated = self._learning = False
        self._heartbeat = Heartbeat(self._show_pulse, first=first, seconds=seconds)
        self._bars = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeLeftColumn(elapsed_when_finished=False),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_interactive,
        )
        self._run = self._bars.add_task("run", visible=False)
        self._chains = self._bars.add_task("", visible=False)

    def start(self, total_steps: int, done: int = 0) -> None:
        """Show the bars; a resumed run has some steps `done`."""
        self._total = total_steps
        self._doing = f"step {done + 1}"
        self._bars.reset(self._run, total=total_steps, completed=done, visible=True)
        self._bars.start()

    def step_started(self, step: int, chains: int) -> None:
        """Start counting the chains of a step."""
        self._count(f"step {step}", chains)

    def learning_started(self) -> None:
        """Show from now on that the step learns: its chains are complete."""
        self._learning = True

    def trial_started(self, chains: int) -> None:
        """Start counting the chains of a trial before the first step."""
        self._count("trial", chains)

    def evaluation_started(self, chains: int, size: str = "") -> None:
        """Start counting the chains of an evaluation; before the first one, print its size."""
        if size and not self._evaluated:
            self.message(size)
        self._evaluated = True
        self._count("evaluation", chains)

    def chains_done(self, count: int) -> None:
        """Count the chains of a finished group."""
        self._done += count
        self._bars.advance(self._chains, count)

    def step_done(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the step's line, and count the step."""
        self.message(step_line(step, self._total, metrics))
        self._doing, self._expected, self._learning = f"step {step + 1}", 0, False
        self._bars.update(self._run, completed=step)
        self._bars.update(self._chains, visible=False)

    def evaluation_done(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the evaluation's line."""
        self.message(evaluation_line(step, metrics))
        self._bars.update(self._chains, visible=False)

    def message(self, text: str) -> None:
        """Print a line above the bars, as it is."""
        self._heartbeat.shown()
        self._console.print(Text(readable(text, None)), soft_wrap=True)

    def close(self) -> None:
        """Remove the bars; the lines stay. Closing twice does nothing."""
        self._heartbeat.close()
        self._bars.stop()

    def __enter__(self) -> Self:
        if not self._console.quiet:
            self._heartbeat.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _count(self, what: str, chains: int) -> None:
        self._doing, self._expected, self._done, self._learning = what, chains, 0, False
        self._bars.reset(self._chains, total=chains, description=what, visible=True)

    def _show_pulse(self) -> None:
        """Say how far the run is, unless bars show it."""
        if self._bars.live.is_started and not self._bars.disable:
            return
        elapsed = minutes(time.monotonic() - self._started)
        self.message(f"{self._doing}: {self._stage()}{elapsed} since the start")

    def _stage(self) -> str:
        if self._learning:
            return "learning, "
        if self._done > self._expected > 0:
            return f"{self._done} chains done, {self._expected} needed, "
        return f"{self._done} of {self._expected} chains done, " if self._expected else ""


def step_line(step: int, total: int, metrics: Mapping[str, float]) -> str:
    """Return a step's metrics on one line; what was not measured is left out.

    >>> step_line(12, 60, {"reward/mean": 0.61, "reward/solved": 0.58, "time/training": 6.04})
    'step 12/60  reward 0.61  solved 58%  train 6.0s'
    """
    return "  ".join([f"step {step:>{len(str(total))}}/{total}", *_entries(_STEP, metrics)])


def evaluation_line(step: int, metrics: Mapping[str, float]) -> str:
    """Return the metrics of an evaluation on one line.

    >>> evaluation_line(10, {"eval/reward": 0.71, "eval/reward_low": 0.62,
    ...                      "eval/reward_high": 0.8, "eval/solved": 0.68, "eval/pass@4": 0.92})
    'eval step 10  reward 0.71 [0.62, 0.80]  solved 68%  pass@4 92%'
    """
    entries = _entries(_EVALUATION, metrics)
    if "eval/reward_low" in metrics and entries:
        entries[0] += f" {interval_text(metrics['eval/reward_low'], metrics['eval/reward_high'])}"
    passes = sorted((int(n.split("@")[1]), n) for n in metrics if n.startswith("eval/pass@"))
    entries += [f"pass@{k} {metrics[name]:.0%}" for k, name in passes[-1:] if k > 1]
    entries += _entries(_NOT_COUNTED, metrics)
    return "  ".join([f"eval step {step}", *entries])


_STEP = {
    "reward/mean": "reward {:.2f}",
    "train/loss": "loss {:.4f}",
    "reward/solved": "solved {:.0%}",
    "tools/failed_share": "tool errors {:.0%}",
    "chains/failed_share": "failed {:.0%}",
    "chains/time_limit_share": "out of time {:.0%}",
    "tokens/per_second": "{:.0f} tok/s",
    "time/generation": "gen {:.1f}s",
    "time/tools": "tools {:.1f}s",
    "time/environments": "env {:.1f}s",
    "time/training": "train {:.1f}s",
}
_EVALUATION = {"eval/reward": "reward {:.2f}", "eval/solved": "solved {:.0%}"}
_NOT_COUNTED = {
    "eval/time_limit_share": "out of time {:.0%}",
    "eval/failed_share": "left out {:.0%}",
}
_UNREMARKABLE = {
    "chains/failed_share",
    "chains/time_limit_share",
    "time/environments",
    *_NOT_COUNTED,
}
"""Metrics that are not shown while they are 0."""


def _entries(form: Mapping[str, str], metrics: Mapping[str, float]) -> list[str]:
    shown = {name: text for name, text in form.items() if name in metrics}
    if "reward/mean" in shown:
        shown.pop("train/loss", None)  # the loss of a policy gradient says nothing by itself
    return [
        text.format(metrics[name])
        for name, text in shown.items()
        if not (name in _UNREMARKABLE and metrics[name] == 0)
    ]
