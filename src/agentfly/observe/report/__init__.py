"""What a run has changed: held-out tasks before and after, in numbers and in example chains.

runs/quickstart/
    report.json     {"reward_before": 0.05, "reward_after": 0.93, "seconds": 281.4, …}
    report.html     the table, the plot, chains side by side
    reward.png, reward.html
"""

import json
from collections.abc import Sequence
from pathlib import Path

from agentfly.observe.evaluation_metrics import Counting
from agentfly.observe.plot import plot_curves
from agentfly.observe.plot.curves import read_curves
from agentfly.observe.plot.page import figure, render
from agentfly.observe.report.compare import Report, compare
from agentfly.observe.report.examples import conversation
from agentfly.observe.report.terminal import show_report
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.types import Group

__all__ = ["Report", "show_report", "write_report"]


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
        folder: Where to write, for example the run's folder.
        title: Shown above.
        before: Held-out groups of the model as it was.
        after: Held-out groups of the same tasks after training.
        records: The run's metrics, for the plot.
        seconds: How long the run took.
        command: What to type to get the same, if there is such a command.
        num_examples: How many tasks are shown with a chain from before and one from after.
        counting: What rewards can be, and what chains that ran out of time count.
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
        figure=figure(read_curves(records)),
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
