"""`agentfly envs list`: the environments that there are, and what is missing for them here."""

import inspect
from importlib.metadata import entry_points

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agentfly.environments.index import INDEX
from agentfly.errors import ConfigError


def list_() -> None:
    """List the environments, including those of installed packages.

    For those that can't be used here, the table says what is missing.
    """
    table = Table("name", "what it is", "here")
    for name, entry in INDEX.items():
        table.add_row(name, escape(entry.summary), escape(entry.requires() or "yes"))
    for name in sorted(entry_points(group="agentfly.environments").names - INDEX.keys()):
        summary, here = _installed(name)
        table.add_row(name, escape(summary), escape(here))
    Console().print(table)
    typer.echo("`agentfly envs info NAME` shows more; `agentfly envs play NAME` lets you try it.")


def _installed(name: str) -> tuple[str, str]:
    """Return a package's summary and what is missing here; a broken package hides no other."""
    from agentfly.environments.catalog import find_environment
    from agentfly.types import EnvSpec

    try:
        found = find_environment(name)
    except ConfigError as error:
        return "", str(error)
    if isinstance(found, EnvSpec):
        about = inspect.getdoc(found.factory) or ""
        return about.partition("\n")[0], "yes, with tasks of your own"
    return found.summary, found.requires() or "yes"
