"""A run's report as files, and on the terminal."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfly.observe.chain_text import conversation, question, readable, reward_text
from agentfly.observe.console import STYLES
from agentfly.observe.plot import html_figure, plot_curves, read_curves, render
from agentfly.observe.recorded_run import RecordedRun, find_run
from agentfly.observe.run_report import Report, read_report
from agentfly.observe.whole_file import whole_file
from agentfly.types import Trajectory
from agentfly.types.short_text import printable


def write_report(
    run: str | Path, *, title: str | None = None, command: str | None = None
) -> Report:
    """Write the report of a run, of a killed one too: report.html, report.json and the curve.

    Args:
        run: Folder of the run, or its name in the folder `runs`.
        title: Title of the page; by default that of an earlier report, or the run's name.
        command: Command that reproduces the run; by default that of an earlier report.
    """
    recorded = find_run(run)
    report = read_report(recorded)
    earlier = recorded.json_file("report.json")
    known = earlier if isinstance(earlier, dict) else {}
    title = title or str(known.get("title") or f"Run {recorded.name}")
    command = command or known.get("command")
    _write(recorded, "report.json", json.dumps(_summary(report, title, command), indent=1) + "\n")
    figure = _draw(report, title)
    page = render(
        "report.html.jinja",
        title=title,
        command=command,
        report=report,
        settings=_settings(recorded),
        figure=figure,
        conversation=conversation,
        question=question,
        readable=readable,
        reward_text=reward_text,
    )
    _write(recorded, "report.html", page)
    return report


def _write(run: RecordedRun, name: str, text: str) -> None:
    with whole_file(run.path / name) as file:
        file.write(text.encode(errors="backslashreplace"))


def _draw(report: Report, title: str) -> Any:
    """Write the curve as files, and return it for the page; None without a reward."""
    if not any({"reward/mean", "eval/reward"} & record.metrics.keys() for record in report.records):
        return None
    folder = report.run.path
    plot_curves(report.records, folder / "reward.png", folder / "reward.html", title)
    return html_figure(read_curves(report.records))


def _summary(report: Report, title: str, command: object) -> dict[str, Any]:
    return {
        "title": title,
        "command": command,
        "steps": max((record.step for record in report.records), default=0),
        "reward_before": report.reward_before,
        "reward_after": report.reward_after,
        "seconds": report.seconds,
        "before": report.before.metrics if report.before else None,
        "after": report.after.metrics if report.after else None,
        "findings": [str(finding) for finding in report.findings],
        "notes": report.notes,
    }


def _settings(run: RecordedRun) -> str:
    """Return the settings without their comments."""
    return "\n".join(line for line in run.config.splitlines() if not line.startswith("#")).strip()


def show_report(report: Report, console: Console) -> None:
    """Print the table of before and after, and the example chains."""
    if report.rows:
        console.print(_table(report))
    for text in (report.verdict, *map(str, report.findings), *report.notes):
        if text:
            console.print(Text(readable(text)), soft_wrap=True)
    for example in report.examples:
        console.print()
        for line in question(example.after).splitlines():
            console.print(Text(printable(line), style="bold"), soft_wrap=True)
        _show_chain("before", example.before, console)
        _show_chain("after", example.after, console)


def _table(report: Report) -> Table:
    table = Table(title=f"{report.num_tasks} held-out tasks", title_justify="left")
    table.add_column("")
    if report.before:
        table.add_column("before", justify="right")
    table.add_column("after", justify="right", style="bold")
    for row in report.rows:
        table.add_row(row.name, *((row.before,) if report.before else ()), row.after)
    return table


def _show_chain(when: str, chain: Trajectory, console: Console) -> None:
    console.print(Text(f"  {when}: {reward_text(chain)}, {chain.stop}", style="dim"))
    for said in conversation(chain):
        for line in said.text.splitlines():
            role = (f"    {said.role:<10} ", "dim")
            console.print(Text.assemble(role, (printable(line), STYLES[said.role])), soft_wrap=True)
