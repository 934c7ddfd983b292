"""`agentfly watch`: follow a run that is at work."""

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from agentfly.cli.command import cli_errors
from agentfly.cli.report import Run
from agentfly.observe.recorded_run import find_run
from agentfly.observe.run_watch import RunWatch
from agentfly.types.short_text import printable


def watch(
    run: Run,
    *,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two updates.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Show what was logged so far, and stop.")
    ] = False,
) -> None:
    """Follow a run in the terminal: each step and evaluation as it is logged, until it ends.

    It only reads the run's files, from any terminal; Ctrl-C stops watching, not the run.
    """
    with cli_errors():
        watched, console = RunWatch(find_run(run)), Console()
        try:
            _follow(watched, console, every, once=once)
        except KeyboardInterrupt:
            typer.echo("stopped watching; the run goes on", err=True)


def _follow(watched: RunWatch, console: Console, every: float, *, once: bool) -> None:
    with console.status("") as status:
        while True:
            # First whether it is over: what it logged until then is shown below.
            over = watched.is_over
            for line in watched.new_lines():
                console.print(Text(printable(line)), soft_wrap=True)
            if over or once:
                break
            status.update(Text(printable(watched.status())))
            time.sleep(every)
    console.print(Text(printable(watched.last_line() if over else watched.status())))
