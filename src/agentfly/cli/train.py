"""`agentfly train`: parse, load, one call."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agentfly.agents.mistakes import mistakes_of_run
from agentfly.cli.errors import told_plainly
from agentfly.cli.run_command import DryRun, Overrides, Resume, extra_needed, running
from agentfly.config import Problem, RunSettings, SettingsError, load_settings, to_toml
from agentfly.errors import ConfigError


def train(
    file: Annotated[Path, typer.Argument(help="A run's settings: a TOML file.")],
    overrides: Overrides = None,
    *,
    dry_run: DryRun = False,
    resume: Resume = False,
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
        settings = _load(file, overrides or ())
        if dry_run:
            typer.echo(to_toml(settings), nl=False)
            return
        from agentfly.training import train as run

        with running("train", file, overrides or (), settings):
            result = run(settings, resume=resume, base=file.parent)
        typer.echo(f"{result.steps} steps done. The model: {result.model}")
        if (best := result.best) and best != result.checkpoint:
            typer.echo(f"The best by held-out reward, of an earlier step: {best}")


def _load(file: Path, overrides: Sequence[str]) -> RunSettings:
    with extra_needed():
        from agentfly.algorithms import ALGORITHMS
    check = partial(_problems, base=file.parent)
    return load_settings(file, overrides, {"algorithm": ALGORITHMS}, check=check)


def _problems(settings: RunSettings, base: Path) -> Iterator[Problem]:
    """Find what only the named parts themselves know to be wrong."""
    from agentfly.algorithms import make_algorithm

    yield from mistakes_of_run(settings, base=base)
    try:
        chosen = settings.algorithm
        algorithm = make_algorithm(chosen.name, chosen.options, base=base)
    except SettingsError as error:
        yield from error.problems
    except ConfigError as error:
        yield Problem(key="algorithm.name", text=str(error))
    else:
        yield from algorithm.problems(settings.rollout.num_chains)
