"""`agentfly report`: a run as a page, made from its folder alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentfly.cli.command import cli_errors
from agentfly.errors import AgentFlyError
from agentfly.observe import show_report, write_report

PAGE = "report.html"

Run = Annotated[str, typer.Argument(help="Folder of a run, or its name in the folder `runs`.")]


def report(run: Run) -> None:
    """Write the report of a run again, from its folder alone.

    It works for runs that were killed or are still at work, and says what is missing. `agentfly
    train` writes the same page when it ends.
    """
    with cli_errors():
        written = write_report(run)
        show_report(written, Console(soft_wrap=True))
        typer.echo(f"\n{written.progress}. Look at {written.run.path / PAGE}")


@contextmanager
def reported(run: Path, *, title: str | None = None, command: str | None = None) -> Iterator[None]:
    """Write the report of a run when it ends, is stopped, or fails after at least one step."""
    before = _logged(run)
    try:
        yield
    finally:
        if _logged(run) != before:
            _write(run, title=title, command=command)


def _logged(run: Path) -> int:
    """Return the time at which the run's metrics were last written; 0 if never."""
    metrics = run / "metrics.jsonl"
    return metrics.stat().st_mtime_ns if metrics.exists() else 0


def _write(run: Path, *, title: str | None, command: str | None) -> None:
    """Write a report and print its path; a report that fails must not hide how the run ended."""
    try:
        write_report(run, title=title, command=command)
    except (AgentFlyError, OSError) as error:
        typer.echo(f"The report of {run} could not be written: {error}", err=True)
    else:
        typer.echo(f"The report: {run / PAGE}")
