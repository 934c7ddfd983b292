"""`agentfly envs`: list, describe, play, demonstrate and serve the built-in environments."""

import inspect
import json
from collections.abc import Iterator

import typer

from agentfly.cli.command import cli_errors
from agentfly.cli.envs.demonstrate import demonstrate
from agentfly.cli.envs.play import play
from agentfly.cli.envs.selection import Name, select_environment, tasks_of
from agentfly.cli.envs.serve import serve
from agentfly.environments import (
    EnvironmentDefinition,
    environment_names,
    find_definition,
    find_environment,
)
from agentfly.errors import ConfigError
from agentfly.types import EnvSpec

_SHOWN = 400
"""Maximum number of characters shown of a long text."""


def list_() -> None:
    """List the environments, including those of installed packages.

    For those that can't be used here, the table says what is missing.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "what it is", "here")
    for name in environment_names():
        summary, here = _entry(name)
        table.add_row(name, escape(summary), escape(here))
    Console().print(table)
    typer.echo("`agentfly envs info NAME` shows more; `agentfly envs play NAME` lets you try it.")


def _entry(name: str) -> tuple[str, str]:
    """Return an environment's summary and what is missing here; a broken package hides no other."""
    try:
        found = find_environment(name)
    except ConfigError as error:
        return "", str(error)
    if isinstance(found, EnvSpec):
        about = inspect.getdoc(found.factory) or ""
        return about.partition("\n")[0], "yes, with tasks of your own"
    return found.summary, found.requires() or "yes"


def info(name: Name) -> None:
    """Show an environment's options, tools, prompt and one of its tasks."""
    with cli_errors():
        definition = find_definition(name)
        typer.echo(f"{definition.summary}\n")
        for line in _options(definition):
            typer.echo(line)
        typer.echo(f'\nIn a run\'s settings:\n\n  [[source]]\n  environment = "{name}"\n')
        parts = select_environment(name, [])
        for tool in parts.tools:
            arguments = ", ".join(tool.spec.parameters.get("properties", {}))
            typer.echo(f"tool {tool.spec.name}({arguments}): {tool.spec.description}")
        if parts.reward is not None:
            typer.echo(f"reward {parts.reward.name}")
        if parts.system_prompt:
            typer.echo(f"\nprompt: {parts.system_prompt}")
        task = tasks_of(parts, held_out=False)[0]
        typer.echo(f"\na task: {_short(json.dumps(dict(task.fields), ensure_ascii=False))}")


def _options(definition: EnvironmentDefinition) -> Iterator[str]:  # type: ignore[type-arg]
    fields = definition.options.model_fields
    for key, field in fields.items():
        meaning = " ".join((field.description or "").split())
        yield f"  {key} = {json.dumps(field.default, default=str)}   {meaning}"
    if not fields:
        yield "  It has no options."


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


envs = typer.Typer(
    help="The built-in environments: list, info, play, demonstrate, serve.", no_args_is_help=True
)
envs.command("list")(list_)
envs.command()(info)
envs.command()(play)
envs.command()(demonstrate)
envs.command()(serve)
