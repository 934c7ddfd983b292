"""`agentfly envs info`: an environment's options, tools, prompt and one of its tasks."""

import json
from collections.abc import Iterator

import typer

from agentfly.cli.command import cli_errors
from agentfly.cli.envs.selection import Name, select_environment, tasks_of
from agentfly.environments import EnvironmentDefinition, find_definition

_SHOWN = 400
"""Maximum number of characters shown of a long text."""


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
