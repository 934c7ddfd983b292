"""`agentfly runs`: list, show, compare and remove runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfly.cli.command import cli_errors
from agentfly.cli.report import Run
from agentfly.observe.estimate import interval_text
from agentfly.observe.findings import read_findings
from agentfly.observe.recorded_run import RUNS, find_run
from agentfly.observe.run_list import (
    RunEntry,
    describe_run,
    differences,
    list_runs,
    remove_run,
)
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.types.short_text import printable, shorten

runs = typer.Typer(help="Runs: list, show, compare, rm.", no_args_is_help=True)


@runs.command("list")
def list_(
    folder: Annotated[Path, typer.Argument(help="The folder in which runs are kept.")] = RUNS,
) -> None:
    """List the runs in a folder: how each ended, its best held-out reward, its size on disk."""
    with cli_errors():
        table = Table(box=SIMPLE_HEAD)
        for name in ("run", "model", "steps", "state", "reward", "best held out", "size"):
            right = name in ("steps", "reward", "size")
            table.add_column(name, justify="right" if right else "left")
        for entry in list_runs(folder):
            table.add_row(
                Text(shorten(entry.run.name, 40)),
                Text(shorten(_model(entry), 40)),
                entry.progress,
                Text(shorten(entry.state, 40)),
                _number(entry.reward),
                _held_out(entry.best),
                _bytes(entry.size),
            )
        if table.row_count:
            Console().print(table)
        else:
            typer.echo(f"There are no runs in {folder}.")


@runs.command()
def show(run: Run) -> None:
    """Show a run: how it ended, its rewards, what it found wrong, its checkpoints."""
    with cli_errors():
        entry = describe_run(find_run(run))
        console = Console(soft_wrap=True)
        for name, text in (
            ("folder", str(entry.run.path)),
            ("model", _model(entry)),
            ("state", f"{entry.state}, {entry.progress} steps"),
            ("reward", f"{_number(entry.reward)} in training, last step"),
            ("held out", _held_out(entry.best)),
            ("size", _bytes(entry.size)),
            (
                "checkpoints",
                ", ".join(f"step {step}" for step in entry.run.checkpoint_steps) or "none",
            ),
        ):
            console.print(Text(f"{name:<12} {printable(text)}"))
        for finding in read_findings(entry.run.path / "findings.json"):
            console.print(Text(printable(f"found        step {finding.step}: {finding}")))


@runs.command()
def compare(one: Run, other: Run) -> None:
    """Compare two runs: their rewards, and the settings in which they differ."""
    with cli_errors():
        entries = [describe_run(find_run(run)) for run in (one, other)]
        table = Table(box=SIMPLE_HEAD)
        table.add_column("")
        for entry in entries:
            table.add_column(Text(shorten(entry.run.name, 40)))
        table.add_row("steps", *(entry.progress for entry in entries))
        table.add_row("state", *(Text(shorten(entry.state, 40)) for entry in entries))
        table.add_row("training reward", *(_number(entry.reward) for entry in entries))
        table.add_row("best held out", *(_held_out(entry.best) for entry in entries))
        for key, *values in differences(entries[0].run, entries[1].run):
            table.add_row(Text(shorten(key, 60)), *(Text(shorten(value, 60)) for value in values))
        Console().print(table)


@runs.command()
def rm(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders or names of runs.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Delete runs with all their files, after asking. A run that is being trained is refused."""
    with cli_errors():
        found = [find_run(name) for name in names]
        once = {run.path.absolute(): run for run in found}.values()
        for entry in [describe_run(run) for run in once]:
            what = f"{entry.run.path} ({entry.progress} steps, {_bytes(entry.size)})"
            if yes or typer.confirm(f"Delete {printable(what)}?"):
                remove_run(entry.run)
                typer.echo(f"deleted {printable(what)}")


def _model(entry: RunEntry) -> str:
    model = entry.run.settings.get("model")
    return str(model.get("name", "-")) if isinstance(model, dict) else "-"


def _held_out(record: MetricsRecord | None) -> str:
    if record is None:
        return "-"
    low, high = (record.metrics.get(f"eval/reward_{end}") for end in ("low", "high"))
    interval = "" if low is None or high is None else f" {interval_text(low, high, '{:.2f}')}"
    return f"{record.metrics['eval/reward']:.2f}{interval} after step {record.step}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _bytes(size: float) -> str:
    """Return a size for people.

    >>> _bytes(500), _bytes(3_200_000)
    ('500 B', '3.2 MB')
    """
    units = ["TB", "GB", "MB", "kB", "B"]
    while size >= 1000 and len(units) > 1:
        units.pop()
        size /= 1000
    return f"{size:.0f} B" if units[-1] == "B" else f"{size:.1f} {units[-1]}"
