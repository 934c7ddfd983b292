"""`agentfly train`: parse, load, one call."""

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agentfly.agents.named import unknown_names
from agentfly.cli.errors import resumable, told_plainly
from agentfly.config import Problem, RunSettings, SettingsError, load_settings, to_toml
from agentfly.errors import ConfigError


def train(
    file: Annotated[Path, typer.Argument(help="A run's settings: a TOML file.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            help="Settings to change, each key=value: train.lr=1e-5 source.0.tasks=more.jsonl",
            show_default=False,
        ),
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print all settings, and stop.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")
    ] = False,
) -> None:
    """Train a model by the settings of a TOML file.

    A small file is enough; every other setting has a default that is known to learn:

    \b
        name = "sums"
        model.name = "smollm2-135m-instruct"
        [\\[source]]
        tasks = "sums.jsonl"        # rows such as {"question": "What is 2+2?", "answer": "4"}
        tools = ["calculator"]
        reward = "numeric_match"

    Tools and rewards of your own are named by module:name, relative to the file's folder. What the
    run does goes to the folder runs/NAME.

    \b
        agentfly train sums.toml --dry-run
        agentfly train sums.toml train.steps=20 rollout.num_chains=4
        agentfly train sums.toml --resume
    """  # noqa: D301 - a real \\b keeps lines apart, and brackets would be taken for markup
    with told_plainly():
        settings = _load(file, overrides or [])
        if dry_run:
            typer.echo(to_toml(settings), nl=False)
            return
        from agentfly.training import train as run

        again = shlex.join(["agentfly", "train", str(file), *(overrides or []), "--resume"])
        with resumable(again):
            result = run(settings, resume=resume, base=file.parent)
        typer.echo(f"{result.steps} steps done. The model: {result.model}")


def _load(file: Path, overrides: list[str]) -> RunSettings:
    try:
        from agentfly.algorithms import ALGORITHMS
    except ImportError as error:
        raise ConfigError(
            f"training needs the extra `train` ({error.name} is missing): "
            "pip install 'agentfly[train]'"
        ) from error
    check = partial(_problems, base=file.parent)
    return load_settings(file, overrides, {"algorithm": ALGORITHMS}, check=check)


def _problems(settings: RunSettings, base: Path) -> Iterator[Problem]:
    """Find what only the named parts themselves know to be wrong."""
    from agentfly.algorithms import make_algorithm

    yield from unknown_names(settings, base=base)
    try:
        chosen = settings.algorithm
        algorithm = make_algorithm(chosen.name, chosen.options, base=base)
    except SettingsError as error:
        yield from error.problems
    except ConfigError as error:
        yield Problem(key="algorithm.name", text=str(error))
    else:
        if algorithm.needs_group and settings.rollout.num_chains < 2:
            told = f"{algorithm.name} compares the chains of a task: it needs at least 2, got 1"
            yield Problem(key="rollout.num_chains", text=told)
