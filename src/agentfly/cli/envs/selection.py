"""Arguments that name an environment, and the parts that they select."""

from typing import Annotated

import typer

from agentfly.agents.source_parts import SourceParts, resolve_source
from agentfly.cli.command import ENVIRONMENT_OPTION, read_options
from agentfly.config import SourceSettings
from agentfly.environments import find_definition
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


def select_environment(
    name: str, options: list[str] | None, *, kind: str = "tools", tasks: str | None = None
) -> SourceParts:
    """Return the parts of an environment, resolved as in a run's settings.

    Args:
        name: Its name, or `module:name`.
        options: Its options, each `key=value`.
        kind: Kind of agent.
        tasks: Rows in place of its own tasks.
    """
    if tasks is None:
        find_definition(name)  # A class without tasks is an error of its own, before any option.
    chosen = read_options(options, ENVIRONMENT_OPTION)
    return resolve_source(SourceSettings(environment=name, options=chosen, kind=kind, tasks=tasks))


def tasks_of(parts: SourceParts, *, held_out: bool) -> list[Task]:
    """Read the training tasks, or the held-out ones."""
    tasks = load_tasks(parts.eval_tasks if held_out else parts.tasks)
    if not tasks:
        raise ConfigError("there are no tasks: the list is empty")
    return tasks
