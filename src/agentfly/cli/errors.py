"""How the command line tells of mistakes: one line, no traceback, exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from agentfly.errors import AgentFlyError


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn an error that was raised on purpose into a line that a person can act on."""
    try:
        yield
    except AgentFlyError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(2) from error


@contextmanager
def resumable(command: str) -> Iterator[None]:
    """Say how to go on after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(f"\nstopped. What was learnt is saved; go on with: {command}", err=True)
        raise typer.Exit(130) from error
