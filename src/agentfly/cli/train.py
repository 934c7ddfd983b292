"""`agentfly train`: train by reward, with the settings of a TOML file."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentfly.agents import RunParts, resolve_run
from agentfly.agents.run_parts import ignored_turn_limits
from agentfly.cli.command import (
    DryRun,
    Overrides,
    Resume,
    cli_errors,
    command_line,
    require_train_extra,
    resumable,
    warn,
)
from agentfly.cli.replay import replay_run
from agentfly.cli.report import reported
from agentfly.cli.trust import Trust, require_trust
from agentfly.config import Problem, RunSettings, SettingsError, load_settings, to_toml
from agentfly.errors import ConfigError
from agentfly.models.loading import code_files
from agentfly.models.zoo import config_folder
from agentfly.observe.run_folder import RunFolder, require_new, require_run
from agentfly.types.short_text import count

if TYPE_CHECKING:
    from agentfly.training import TrainResult  # imports torch

NOTHING_LEARNED = 3
"""Exit code of a run that took its steps and changed no weight."""


def train(
    file: Annotated[
        str | None,
        typer.Argument(help="A run's settings: a TOML file. With --replay, left out."),
    ] = None,
    overrides: Overrides = None,
    *,
    dry_run: DryRun = False,
    resume: Resume = False,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Run the learner alone on the recorded chains of this run, with its settings.",
        ),
    ] = None,
    trust: Trust = False,
) -> None:
    """Train a model with the settings of a TOML file.

    A small file is enough; every other setting has a default that is known to work:

    \b
        name = "sums"
        model.name = "smollm2-135m-instruct"
        [\\[source]]
        tasks = "sums.jsonl"        # rows such as {"question": "What is 2+2?", "answer": "4"}
        tools = ["calculator"]
        reward = "numeric_match"

    Tools and rewards of your own are named by module:name, relative to the file's folder. If that
    is not the working directory, their code runs only after you have agreed, or with --trust.
    The run writes to the folder runs/NAME, at its end the page report.html. The exit code is 0; 2
    for a mistake in the settings or a run that can't go on; 3 if no update changed the weights;
    130, 143 or 129 if it was stopped.

    \b
        agentfly train sums.toml --dry-run
        agentfly train sums.toml train.steps=20 rollout.num_chains=4
        agentfly train sums.toml --resume
        agentfly train --replay sums train.lr=1e-4     # no engine: what would the learner do?
    """  # noqa: D301 - a real \\b keeps lines apart, and brackets would be taken for markup
    with cli_errors():
        if replay is not None:
            if dry_run or resume:
                raise ConfigError("--replay writes nothing: leave --dry-run and --resume out")
            replay_run(replay, [*([file] if file else []), *(overrides or ())], trust=trust)
            return
        if file is None:
            raise ConfigError("name the run's settings: agentfly train sums.toml")
        resumed = resume and not dry_run
        parts = _load(Path(file), overrides or (), trust=trust, resumed=resumed)
        if dry_run:
            typer.echo(to_toml(parts.settings), nl=False)
            typer.secho(f"\ndry run of {parts.settings.name}:", bold=True, err=True)
            _print_verdict(parts, resume=resume)
            return
        command = command_line("train", Path(file), overrides or (), trust=trust)
        result = _run(parts, command, resume=resume)
        _print_result(result)
        if not result.learned:
            raise typer.Exit(NOTHING_LEARNED)


def _run(parts: RunParts, command: str, *, resume: bool) -> "TrainResult":
    """Train to the end; `command` is printed when the run is stopped, and is in its report."""
    folder = parts.settings.folder / parts.settings.name
    if not resume and "RANK" not in os.environ:  # torchrun's processes share the folder.
        require_new(folder)
    from agentfly.training import train
    from agentfly.training.learner.peers import torchrun_rank

    place = torchrun_rank()
    if place is not None and place.rank > 0:
        train(parts)  # It takes part in the learner and ends the process; rank 0 reports.
    with resumable(command, folder), reported(folder, command=command):
        return train(parts, resume=resume)


def _print_result(result: "TrainResult") -> None:
    typer.echo(f"{count(result.steps, 'step')} done. The model: {result.model}")
    if (best := result.best) and best != result.checkpoint:
        typer.echo(f"The best by held-out reward, of an earlier step: {best}")
    if result.findings:
        typer.echo(f"Findings ({result.folder / 'findings.json'}):")
    for finding in result.findings:
        typer.echo(f"  step {finding.step}: {finding}")


def _print_verdict(parts: RunParts, *, resume: bool) -> None:
    """Print what a run takes on stderr and, last, whether it is ready; exit with 2 if it is not."""
    from agentfly.agents.rehearsal import rehearse

    for ignored in ignored_turn_limits(parts):
        warn(ignored)
    rehearsals = asyncio.run(rehearse(parts))
    for one in rehearsals:
        typer.echo(f"source {one.source!r}: {one.summary}", err=True)
        for warning in one.warnings:
            warn(f"source {one.source!r}: {warning}")
    problems = [f"source {one.source!r}: {text}" for one in rehearsals for text in one.problems]
    problems += _folder_problems(parts.settings, resume=resume)
    for problem in problems:
        typer.secho(f"problem: {problem}", fg=typer.colors.RED, err=True)
    if problems:
        text = f"VERDICT: not ready, see the {count(len(problems), 'problem')} above"
        typer.secho(text, fg=typer.colors.RED, bold=True, err=True)
        raise typer.Exit(2)
    _print_memory(parts)
    if any(one.warnings for one in rehearsals):
        text = "VERDICT: ready to start, but it may learn nothing: see the warning above"
        typer.secho(text, fg=typer.colors.YELLOW, bold=True, err=True)
        return
    text = "VERDICT: ready, nothing is in the way of this run"
    typer.secho(text, fg=typer.colors.GREEN, bold=True, err=True)


def _folder_problems(settings: RunSettings, *, resume: bool) -> list[str]:
    """Return why a run can't be resumed or, if it is a new one, can't have its folder."""
    folder = settings.folder / settings.name
    try:
        if resume:
            RunFolder.open(folder).close()
        else:
            require_new(folder)
    except ConfigError as error:
        return [str(error)]
    return []


def _print_memory(parts: RunParts) -> None:
    """Print on stderr what the run takes in each learner process, if its model's sizes are here."""
    settings = parts.settings
    name, folder = settings.model.name, config_folder(settings.model.name)
    if folder is None:
        typer.echo(f"memory: not estimated, the config.json of {name} is not here", err=True)
        return
    if code_files(folder):
        typer.echo(f"memory: not estimated, {name} needs code of its own", err=True)
        return
    from agentfly.training.learner.model_estimate import estimate_run

    typer.echo(f"memory: {estimate_run(folder, settings, parts.algorithm)}", err=True)


def _load(file: Path, overrides: Sequence[str], *, trust: bool, resumed: bool) -> RunParts:
    with require_train_extra():
        from agentfly.algorithms import KNOWN_ALGORITHMS
    found: list[RunParts] = []

    def check(settings: RunSettings) -> Sequence[Problem]:
        if resumed:
            require_run(settings.folder / settings.name)
        require_trust(settings, file, overrides=overrides, trust=trust)
        try:
            found.append(resolve_run(settings, base=file.parent))
        except SettingsError as error:
            return error.problems
        return ()

    load_settings(file, overrides, {"algorithm": KNOWN_ALGORITHMS}, check=check)
    return found[0]
