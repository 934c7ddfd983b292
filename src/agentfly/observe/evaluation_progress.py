"""Progress of an evaluation on the terminal, with a range for the time left.

    tiny ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  112/400  0:02:07  4:10 to 6:33 left

A file or a pipe gets a line instead, after ten seconds and then every thirty.
"""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from agentfly.observe.chain_text import readable
from agentfly.observe.heartbeat import Heartbeat
from agentfly.observe.rollout_metrics import chain_seconds
from agentfly.observe.time_left import TimeLeft, minutes
from agentfly.types import Group


class EvaluationProgress:
    """One bar for the chains of a model; counts groups as they end."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._left = TimeLeft(total=0)
        self._name = ""
        self._began = time.monotonic()
        self._heartbeat = Heartbeat(self._show_line)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_interactive,
        )
        self._task = self._bars.add_task("", visible=False, left="")

    def start(self, name: str, chains: int) -> None:
        """Count the chains that are still to be run of a model."""
        self._name, self._left, self._began = name, TimeLeft(total=chains), time.monotonic()
        self._bars.reset(self._task, total=chains, description=name, visible=True, left="")
        self._bars.start()

    def group_done(self, group: Group) -> None:
        """Count the chains of a finished group."""
        for member in group.members:
            self._left.chain_ended(chain_seconds(member))
        text = self._left.text(time.monotonic() - self._began)
        self._bars.update(self._task, advance=len(group.members), left=text)

    def message(self, text: str) -> None:
        """Print a line above the bar."""
        self._heartbeat.shown()
        self.console.print(Text(readable(text, None)), soft_wrap=True)

    def _show_line(self) -> None:
        if not self._bars.disable or not self._left.total:
            return
        elapsed = time.monotonic() - self._began
        done = f"{self._left.ended} of {self._left.total} chains done"
        self.message(f"{self._name}: {done} in {minutes(elapsed)}, {self._left.text(elapsed)}")

    def __enter__(self) -> Self:
        self._heartbeat.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._heartbeat.close()
        self._bars.stop()
