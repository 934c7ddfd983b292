"""What the commands that train by a file of settings have in common."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from agentfly.config import RunSettings
from agentfly.config.override import override
from agentfly.config.sft_settings import SftSettings
from agentfly.config.validation_errors import refuse_if_any
from agentfly.errors import AgentFlyError, ConfigError

RUN_MARK = "run.json"
"""The file by which the trainer knows a run. Asking the trainer itself would import torch, which
may be the very thing that Ctrl-C has stopped."""


@contextmanager
def cli_errors() -> Iterator[None]:
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


Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        help="Settings to change, each key=value: train.lr=1e-5 checkpoint.keep=1",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print all settings, and stop.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")]


@contextmanager
def extra_needed() -> Iterator[None]:
    """Say how to install what an import in the block did not find."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"training needs the extra `train` ({error.name} is missing): "
            "pip install 'agentfly[train]'"
        ) from error


@contextmanager
def running(
    command: str, file: Path, overrides: Sequence[str], settings: RunSettings | SftSettings
) -> Iterator[None]:
    """Say how to go on with the same settings after Ctrl-C."""
    again = shlex.join(["agentfly", command, str(file), *overrides])
    with resumable(again, settings.folder / settings.name):
        yield


TemplateOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--template-option",
        help="A variable of the chat template: enable_thinking=false. Can be repeated.",
        metavar="KEY=VALUE",
    ),
]


def read_template_options(options: list[str] | None) -> dict[str, Any]:
    """Read options as overrides of settings are read.

    >>> read_template_options(["enable_thinking=false", "reasoning_effort=low"])
    {'enable_thinking': False, 'reasoning_effort': 'low'}
    """
    read = override({}, options or [])
    refuse_if_any(read.problems, None)
    return read.data
