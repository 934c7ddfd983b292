"""`agentfly quickstart`: fetch a small model, train it to use a calculator, and report."""

import shlex
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from agentfly.cli.command import cli_errors, has_begun, resumable
from agentfly.cli.report import reported
from agentfly.config import RunSettings, load_settings
from agentfly.models import fetch, progress_bar
from agentfly.observe import RecordedRun, read_report, show_report

if TYPE_CHECKING:
    from agentfly.training import TrainResult


COMMAND = "agentfly quickstart"
TITLE = "Quick start: SmolLM2-135M learns to use a calculator"
RUNS = Path("runs")

INTRODUCTION = """\
A language model of 135 million parameters will learn to answer arithmetic with a calculator, by
trial and reward alone. It takes some minutes; Ctrl-C stops it, and --resume continues.
"""


def quickstart(
    folder: Annotated[
        Path, typer.Option(help="Where runs are kept; this one is the folder `quickstart` in it.")
    ] = RUNS,
    *,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the last checkpoint; without one, start."),
    ] = False,
) -> None:
    """Train a real model to use a tool, on this machine, and see its reward rise.

    SmolLM2-135M-Instruct comes from the Python package index. GRPO trains it on questions such as
    "What is 57*83?", which it can't work out without the calculator. Before and after, it is asked
    questions that it is never trained on. At the end it shows a table, example chains, and a plot.
    """
    with cli_errors():
        settings = _settings(folder)
        run = settings.folder / settings.name
        typer.echo(INTRODUCTION)
        with resumable(_command(folder), run):
            with progress_bar(settings.model.name) as progress:
                fetch(settings.model.name, progress=progress)
            with reported(run, title=TITLE, command=COMMAND):
                result = _train(settings, resume=resume and has_begun(run))
        _show(result)


def _command(folder: Path) -> str:
    """Return the command that starts this run."""
    elsewhere = [] if folder == RUNS else ["--folder", str(folder)]
    return shlex.join([*COMMAND.split(), *elsewhere])


def _settings(folder: Path) -> RunSettings:
    text = files(__package__).joinpath("settings.toml").read_text(encoding="utf-8")
    return load_settings(text).model_copy(update={"folder": folder})


def _train(settings: RunSettings, *, resume: bool) -> "TrainResult":
    from agentfly.training import train

    return train(settings, resume=resume)


def _show(result: "TrainResult") -> None:
    report = read_report(RecordedRun(result.folder))
    console = Console(soft_wrap=True)
    console.print()
    show_report(report, console)
    console.print(f"\n{report.seconds / 60:.1f} minutes. Look at {result.folder / 'report.html'}")
    console.print(f"The trained model, as a Hugging Face folder: {result.model}")
