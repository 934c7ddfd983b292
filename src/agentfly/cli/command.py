"""Parts that several commands share: error messages, options, and how to resume a stopped run."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from agentfly.config.override import override
from agentfly.config.validation_errors import refuse_if_any
from agentfly.errors import AgentFlyError, ConfigError
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.run_folder import MARK
from agentfly.runtime.stop_signals import stop_signals
from agentfly.types.short_text import shorten

Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        help="Settings to change, each key=value: train.lr=1e-5 checkpoint.keep=1, or a further "
        "TOML file to put over the first: one_gpu.toml",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print all settings, and stop.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the run's last checkpoint.")]
EngineName = Annotated[
    str, typer.Option(help="The engine: local, vllm, or module:name of your own.")
]
EngineUrl = Annotated[str | None, typer.Option(help="A running vLLM server, for --engine vllm.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model.")
]
ENVIRONMENT_OPTION = "site=office"
"""Example of an environment's option, for messages."""
TEMPLATE_OPTION = "enable_thinking=false"
"""Example of a variable of a chat template."""
TemplateOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--template-option",
        help=f"A variable of the chat template: {TEMPLATE_OPTION}. Can be repeated.",
        metavar="KEY=VALUE",
    ),
]


def read_options(options: Sequence[str] | None, example: str) -> dict[str, Any]:
    """Read options in the form of overrides of settings.

    >>> read_options(["enable_thinking=false", "level=easy", "levels=[1,2]"], "level=easy")
    {'enable_thinking': False, 'level': 'easy', 'levels': [1, 2]}

    Args:
        options: Texts such as `level=easy`.
        example: One that fits, for the message about a text of another form.
    """
    written = f"an option is written key=value, such as {example}"
    read = override({}, options or (), written=written)
    refuse_if_any(read.problems, None)
    return read.data


@contextmanager
def cli_errors() -> Iterator[None]:
    """Report an AgentFlyError, or a path that can't be used, as one message; exit with code 2."""
    try:
        yield
    except AgentFlyError as error:
        raise _exit(str(error)) from error
    except OSError as error:
        if error.filename is None:  # A closed pipe or a lost connection is no mistake in a path.
            raise
        raise _exit(_unusable_path(error)) from error


def _exit(message: str) -> typer.Exit:
    typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
    return typer.Exit(2)


def _unusable_path(error: OSError) -> str:
    return (
        f"{shorten(os.fsdecode(error.filename))!r} can't be used: "
        f"{error.strerror}. Check that its folder exists, and that you may read and write there"
    )


def warn(text: str) -> None:
    """Print a warning on standard error."""
    typer.secho(f"warning: {text}", fg=typer.colors.YELLOW, err=True)


@contextmanager
def require_train_extra() -> Iterator[None]:
    """Turn an ImportError of the block into a ConfigError that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"training needs the extra `train` ({error.name} is missing): "
            "pip install 'agentfly[train]'"
        ) from error


@contextmanager
def resumable(command: str, run: Path) -> Iterator[None]:
    """Print how to continue after Ctrl-C, SIGTERM or SIGHUP.

    Args:
        command: Command that starts the run.
        run: Folder of the run.
    """
    with stop_signals() as stop:
        try:
            yield
        except KeyboardInterrupt as error:
            cause = f" by {stop.received.name}" if stop.received else ""
            typer.echo(f"\nstopped{cause}. {_how_to_go_on(command, run)}", err=True)
            raise typer.Exit(stop.exit_code) from error


def _how_to_go_on(command: str, run: Path) -> str:
    if not has_begun(run):
        return f"There is nothing to resume; start again with: {command}"
    recorded = RecordedRun(run)
    if recorded.kind == "evaluation":
        return f"Finished tasks are saved; go on with: {command} --resume"
    step = max(recorded.checkpoint_steps, default=0)
    saved = f"What was learned up to step {step} is saved" if step else "No step was finished"
    return f"{saved}; go on with: {command} --resume"


def command_line(command: str, file: Path, overrides: Sequence[str], *, trust: bool) -> str:
    """Return the command that starts a run by its settings file, to print or record it."""
    return shlex.join(["agentfly", command, str(file), *overrides, *(["--trust"] if trust else ())])


def has_begun(run: Path) -> bool:
    """Return whether a folder holds a run that can be resumed."""
    return (run / MARK).is_file()
