"""`agentfly envs list` and `agentfly envs info`: what there is, and what one of them is made of."""

import json
from collections.abc import Iterator

import typer

from agentfly.cli.envs.chosen import Name, choose, tasks_of
from agentfly.cli.errors import told_plainly
from agentfly.environments import ENVIRONMENTS, ReadyMade, find_ready_made

_SHOWN = 400
"""How many characters of a long text are shown."""


def list_() -> None:
    """List the ready-made environments, and what is missing for those that can't be used here."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "what it is", "here")
    for name in ENVIRONMENTS:
        ready_made = find_ready_made(name)
        table.add_row(name, ready_made.summary, escape(ready_made.requires() or "yes"))
    Console().print(table)
    typer.echo("`agentfly envs info NAME` tells more; `agentfly envs play NAME` lets you try it.")


def info(name: Name) -> None:
    """Tell an environment's options, tools and prompt, and show one of its tasks."""
    with told_plainly():
        ready_made = find_ready_made(name)
        typer.echo(f"{ready_made.summary}\n")
        for line in _options(ready_made):
            typer.echo(line)
        typer.echo(f'\nIn a run\'s settings:\n\n  [[source]]\n  environment = "{name}"\n')
        outfit = choose(name, [])
        for tool in outfit.tools:
            arguments = ", ".join(tool.spec.parameters.get("properties", {}))
            typer.echo(f"tool {tool.spec.name}({arguments}): {tool.spec.description}")
        if outfit.reward is not None:
            typer.echo(f"reward {outfit.reward.name}")
        if outfit.system_prompt:
            typer.echo(f"\nprompt: {outfit.system_prompt}")
        task = tasks_of(outfit, held_out=False)[0]
        typer.echo(f"\na task: {_short(json.dumps(dict(task.fields), ensure_ascii=False))}")


def _options(ready_made: ReadyMade) -> Iterator[str]:  # type: ignore[type-arg]
    fields = ready_made.options.model_fields
    for key, field in fields.items():
        meaning = " ".join((field.description or "").split())
        yield f"  {key} = {json.dumps(field.default, default=str)}   {meaning}"
    if not fields:
        yield "  It has no options."


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
