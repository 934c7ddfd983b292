"""The report of a run: held-out tasks before and after, in numbers and in example chains.

runs/quickstart/
    report.json     {"reward_before": 0.05, "reward_after": 0.93, "seconds": 281.4, …}
    report.html     the table, the plot, chains side by side
    reward.png, reward.html
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfly.observe.console import STYLES, printable
from agentfly.observe.estimate import interval_text
from agentfly.observe.evaluation_metrics import Counting, evaluation_metrics
from agentfly.observe.plot import html_figure, plot_curves, read_curves, render
from agentfly.observe.rollout_metrics import rollout_metrics
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.types import Group, Message, Trajectory

NUMBER, SHARE = "{:.2f}", "{:.0%}"

ROWS = {
    "eval/reward": ("reward", NUMBER),
    "eval/solved": ("solved", SHARE),
    "tools/calls": ("tool calls per chain", NUMBER),
    "tools/invalid_share": ("invalid calls", SHARE),
    "tools/unknown_share": ("calls of unknown tools", SHARE),
    "turns/mean": ("turns per chain", NUMBER),
    "tokens/per_chain": ("tokens per chain", "{:.0f}"),
    "eval/time_limit_share": ("chains out of time", SHARE),
    "eval/failed_share": ("chains left out as failed", SHARE),
}
"""Rows of the comparison: the metric, its label and its format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One task with a chain from before and one from after."""

    before: Trajectory
    after: Trajectory

    @property
    def question(self) -> str:
        """Last user message before the model's first turn, or the task's id."""
        asked = [message.content for message in self.after.messages if message.role == "user"]
        return asked[-1] if asked else self.after.task.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, for example `reward`, `0.05 [0.01, 0.09]`, `0.93 [0.88, 0.98]`."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A comparison of two evaluations of the same held-out tasks."""

    before: Mapping[str, float]
    """Metrics of the model as it was."""
    after: Mapping[str, float]
    seconds: float
    """Duration of the run."""
    examples: tuple[Example, ...]

    @property
    def reward_before(self) -> float | None:
        """Held-out reward of the model as it was; None if no chain was scored."""
        return self.before.get("eval/reward")

    @property
    def reward_after(self) -> float | None:
        """Held-out reward after training."""
        return self.after.get("eval/reward")

    @property
    def num_tasks(self) -> int:
        """Held-out tasks that were scored after training."""
        return int(self.after["eval/tasks"])

    @property
    def rows(self) -> list[Row]:
        """The table."""
        return [
            Row(
                name=name,
                before=_text(metric, form, self.before),
                after=_text(metric, form, self.after),
            )
            for metric, (name, form) in ROWS.items()
        ]


def write_report(  # noqa: PLR0913 - each is a part of the page
    folder: Path,
    *,
    title: str,
    before: Sequence[Group],
    after: Sequence[Group],
    records: Sequence[MetricsRecord],
    seconds: float,
    command: str | None = None,
    num_examples: int = 3,
    counting: Counting | None = None,
) -> Report:
    """Compare two evaluations of the same held-out tasks, and write the files above.

    Args:
        folder: Folder for the files, for example the run's folder.
        title: Title of the page.
        before: Held-out groups of the model as it was.
        after: Held-out groups of the same tasks after training.
        records: The run's metrics, for the plot.
        seconds: Duration of the run.
        command: Command that reproduces the run, if there is one.
        num_examples: Number of tasks shown with a chain from before and one from after.
        counting: Ranges of rewards, and the reward of chains that ran out of time.
    """
    report = compare(
        before,
        after,
        seconds=seconds,
        num_examples=num_examples,
        counting=counting or Counting(),
    )
    plot_curves(records, folder / "reward.png", folder / "reward.html", title)
    _write_json(report, folder / "report.json", command)
    page = render(
        "report.html.jinja",
        title=title,
        command=command,
        report=report,
        conversation=conversation,
        figure=html_figure(read_curves(records)),
    )
    (folder / "report.html").write_text(page, encoding="utf-8", errors="backslashreplace")
    return report


def _write_json(report: Report, path: Path, command: str | None) -> None:
    summary = {
        "reward_before": report.reward_before,
        "reward_after": report.reward_after,
        "seconds": report.seconds,
        "command": command,
        "before": report.before,
        "after": report.after,
    }
    path.write_text(json.dumps(summary, indent=1) + "\n")


def compare(
    before: Sequence[Group],
    after: Sequence[Group],
    *,
    seconds: float,
    num_examples: int,
    counting: Counting,
) -> Report:
    """Return the metrics of both evaluations, and examples."""
    return Report(
        before=rollout_metrics(before) | evaluation_metrics(before, counting),
        after=rollout_metrics(after) | evaluation_metrics(after, counting),
        seconds=seconds,
        examples=choose_examples(before, after, num_examples),
    )


def _text(metric: str, form: str, metrics: Mapping[str, float]) -> str:
    if metric not in metrics:
        return "-"
    text = form.format(metrics[metric])
    low, high = metrics.get(f"{metric}_low"), metrics.get(f"{metric}_high")
    if low is None or high is None:
        return text
    return f"{text} {interval_text(low, high, form)}"


def choose_examples(
    before: Sequence[Group], after: Sequence[Group], count: int
) -> tuple[Example, ...]:
    """Return the first chain of each of the first tasks: chosen examples would prove nothing."""
    then = _first_chains(before)
    pairs = ((then.get(task), chain) for task, chain in _first_chains(after).items())
    examples = [Example(before=old, after=new) for old, new in pairs if old is not None]
    return tuple(examples[:count])


def _first_chains(groups: Sequence[Group]) -> Mapping[tuple[str, str], Trajectory]:
    first: dict[tuple[str, str], Trajectory] = {}
    for group in groups:
        if group.members:
            first.setdefault((group.task.source, group.task.id), group.members[0])
    return first


def show_report(report: Report, console: Console) -> None:
    """Print the table of before and after, and the example chains."""
    table = Table(title=f"{report.num_tasks} held-out tasks", title_justify="left")
    table.add_column("")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right", style="bold")
    for row in report.rows:
        table.add_row(row.name, row.before, row.after)
    console.print(table)
    for example in report.examples:
        _show_example(example, console)


def _show_example(example: Example, console: Console) -> None:
    console.print()
    for line in example.question.splitlines():
        console.print(Text(printable(line), style="bold"), soft_wrap=True)
    for when, chain in (("before", example.before), ("after", example.after)):
        reward = "unscored" if chain.reward is None else f"reward {chain.reward:.2f}"
        console.print(Text(f"  {when}: {reward}, {chain.stop}", style="dim"))
        _show_chain(chain, console)


def _show_chain(chain: Trajectory, console: Console) -> None:
    for said in conversation(chain):
        for line in said.text.splitlines():
            role = (f"    {said.role:<10} ", "dim")
            console.print(Text.assemble(role, (printable(line), STYLES[said.role])), soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message or call of a chain."""

    role: Literal["system", "user", "assistant", "call", "tool"]
    text: str


def conversation(chain: Trajectory) -> list[Line]:
    """Return the messages after the opening ones, with calls as lines of their own.

    For example `assistant: I will multiply.`, `call: calculator({"expression": "6*7"})`,
    `tool: 42`, `assistant: It is 42.`
    """
    return [
        line
        for turn in chain.turns
        for message in (turn.message, *turn.replies)
        for line in _lines(message)
    ]


def _lines(message: Message) -> Iterator[Line]:
    if message.content:
        yield Line(role=message.role, text=message.content)
    for call in message.tool_calls:
        yield Line(role="call", text=f"{call.name}({call.arguments})")
