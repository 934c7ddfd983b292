"""`agentfly envs info`: an environment's options, tools, prompt and one of its tasks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from agentfly.agents.source_parts import SourceParts
from agentfly.cli.command import ENVIRONMENT_OPTION, cli_errors, read_options
from agentfly.cli.envs.selection import Name, Options, select_environment, tasks_of
from agentfly.config.toml_writer import toml_value
from agentfly.environments import EnvironmentDefinition, find_definition
from agentfly.environments.catalog import read_environment_options
from agentfly.environments.kit import NoTasksError

_SHOWN = 400
"""Maximum number of characters shown of a long text."""


def info(name: Name, options: Options = None) -> None:
    """Show an environment's options, tools, prompt and one of its tasks."""
    with cli_errors():
        definition = find_definition(name)
        given = read_options(options, ENVIRONMENT_OPTION)
        names_of = definition.names_of(read_environment_options(definition, given))
        typer.echo(f"{definition.summary}\n")
        for line in _options(definition, names_of):
            typer.echo(line)
        typer.echo(f'\nIn a run\'s settings:\n\n  [[source]]\n  environment = "{name}"')
        typer.echo(f"  options = {toml_value(given, 'options')}\n" if given else "")
        parts = select_environment(name, options)
        for tool in parts.tools:
            arguments = ", ".join(tool.spec.parameters.get("properties", {}))
            typer.echo(f"tool {tool.spec.name}({arguments}): {tool.spec.description}")
        if parts.reward is not None:
            typer.echo(f"reward {parts.reward.name}")
        if parts.system_prompt:
            typer.echo(f"\nprompt: {parts.system_prompt}")
        typer.echo(f"\n{_first_task(parts)}")


def _first_task(parts: SourceParts) -> str:
    try:
        task = tasks_of(parts, held_out=False)[0]
    except NoTasksError as error:
        return f"no task: {error}"
    return f"a task: {_short(json.dumps(dict(task.fields), ensure_ascii=False))}"


def _options(
    definition: EnvironmentDefinition[Any], names_of: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    fields = definition.options.model_fields
    for key, field in fields.items():
        meaning = " ".join((field.description or "").split())
        allowed = f" [{' | '.join(names_of[key])}]" if key in names_of else _allowed(field)
        yield f"  {key} = {json.dumps(field.default, default=str)}   {meaning}{allowed}"
    if not fields:
        yield "  It has no options."


def _allowed(field: FieldInfo) -> str:
    """Return the values that an option takes, where they are limited."""
    values = list(_choices(field.annotation))
    bounds = [
        f"{sign} {getattr(limit, name)}"
        for limit in (*field.metadata, *_limits_of_items(field.annotation))
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
        if hasattr(limit, name)
    ]
    found = " | ".join(values) or " and ".join(bounds)
    return f" [{found}]" if found else ""


def _limits_of_items(annotation: Any) -> Iterator[Any]:
    """Yield the limits of a list's items."""
    for part in get_args(annotation):
        if isinstance(part, FieldInfo):
            yield from part.metadata
        else:
            yield from _limits_of_items(part)


def _choices(annotation: Any) -> Iterator[str]:
    """Yield the values of all literals and truth values in a type, which may be a list of them."""
    if annotation is bool:
        yield from ("true", "false")
    elif get_origin(annotation) is Literal:
        yield from (json.dumps(value) for value in get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _choices(part)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
