"""The environment that a person named, with the options that came with the name."""

from typing import Annotated, Any

import typer

from agentfly.agents.outfit import Outfit, fit_out
from agentfly.config import SourceSettings
from agentfly.config.override import override
from agentfly.config.validation_errors import refuse_if_any
from agentfly.errors import ConfigError
from agentfly.tasks import load_tasks
from agentfly.types import Task

Name = Annotated[str, typer.Argument(help="A name that `agentfly envs list` shows.")]
Options = Annotated[
    list[str] | None,
    typer.Argument(
        help="Its options, each key=value; `agentfly envs info NAME` lists them.",
        show_default=False,
    ),
]
Kind = Annotated[str, typer.Option(help="The kind of agent: tools, react, code or tags.")]
HeldOut = Annotated[bool, typer.Option("--held-out", help="Use the held-out tasks.")]


def choose(name: str, options: list[str] | None, *, kind: str = "tools") -> Outfit:
    """Fit out an environment as a run's settings would."""
    chosen = read_options(options or [])
    return fit_out(SourceSettings(environment=name, options=chosen, kind=kind))


def read_options(options: list[str]) -> dict[str, Any]:
    """Read options as overrides of settings are read: `levels=[1,2]`, `level=easy`."""
    read = override({}, options)
    refuse_if_any(read.problems, None)
    return read.data


def tasks_of(outfit: Outfit, *, held_out: bool) -> list[Task]:
    """Read the tasks to train on, or those to measure with."""
    tasks = load_tasks(outfit.eval_tasks if held_out else outfit.tasks)
    if not tasks:
        raise ConfigError("there are no tasks: the list is empty")
    return tasks
