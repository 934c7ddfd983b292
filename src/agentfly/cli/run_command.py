"""What the commands that train by a file of settings have in common."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from agentfly.cli.errors import resumable
from agentfly.config import RunSettings
from agentfly.config.sft_settings import SftSettings
from agentfly.errors import ConfigError

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
