"""How the command line tells of mistakes: one line, no traceback, exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from agentfly.errors import AgentFlyError

RUN_MARK = "run.json"
"""The file by which the trainer knows a run. Asking the trainer itself would import torch, which
may be the very thing that Ctrl-C has stopped."""


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn an error that was raised on purpose into a line that a person can act on."""
    try:
        yield
    except AgentFlyError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(2) from error


@contextmanager
def resumable(command: str, run: Path) -> Iterator[None]:
    """Say how to go on after Ctrl-C.

    Args:
        command: What starts the run.
        run: Its folder.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if has_begun(run):
            told = f"What was learned is saved; go on with: {command} --resume"
        else:
            told = f"There is nothing to resume; start again with: {command}"
        typer.echo(f"\nstopped. {told}", err=True)
        raise typer.Exit(130) from error


def has_begun(run: Path) -> bool:
    """Tell whether a folder holds a run that can be resumed."""
    return (run / RUN_MARK).is_file()
