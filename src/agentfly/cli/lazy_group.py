"""A group of commands whose modules are imported when they are called, not when they are listed."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that is known by its name and summary until it is called."""

    path: str
    """The function, or a typer app with commands of its own, as `module:name`."""
    summary: str
    """First sentence of the function's docstring, which a list of commands shows."""

    def load(self, name: str) -> Any:
        """Import the module, and return the command for typer to run."""
        module, _, attribute = self.path.partition(":")
        found = getattr(import_module(module), attribute)
        app = typer.Typer(add_completion=False)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
            group: Any = get_command(app)
            return group.commands[name]
        app.command(name)(found)
        return get_command(app)


def lazy_group(commands: Mapping[str, LazyCommand], *, about: str, **options: Any) -> typer.Typer:
    """Return a typer app that imports the module of a command when it is called.

    Args:
        commands: The commands by name, in the order of the list.
        about: Help of the group.
        options: Other arguments of `typer.Typer`.
    """

    class LazyGroup(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            _give_flags_defaults(self, ctx)
            return super().parse_args(ctx, args)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            if name is not None:
                command = commands[name].load(name)
                _give_flags_defaults(command, ctx)
            return name, command, rest

    app = typer.Typer(cls=LazyGroup, help=about, no_args_is_help=True, **options)
    for name, command in commands.items():
        app.command(name, help=command.summary)(_listed_only)
    return app


def _give_flags_defaults(command: Any, context: Any) -> None:
    """Set flags that have no default, as --help, to False.

    typer converts a value of None by pydantic, whose import takes longer than all others.
    """
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False) and parameter.default is None:
            parameter.default = False


def _listed_only() -> None:
    """Stand for a command in the list of a group."""
    raise AssertionError("the group calls the command itself")
