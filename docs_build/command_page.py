"""docs/commands.md: every command with its arguments and options, as typer knows them."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from agentfly.cli.main import app

_INTRODUCTION = """\
# The command line

`agentfly COMMAND --help` shows the same in the terminal. Values such as `train.lr=1e-5` after a
settings file change single [settings](settings.md). `agentfly --install-completion` makes the shell
complete commands and options, `agentfly --version` prints the version.
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the full name of each command that can be called, with its object of typer's."""
    top: Any = get_command(app)
    yield from _below(top, "agentfly")


def command_page() -> str:
    """Return the page."""
    return "\n".join([_INTRODUCTION, *(_section(name, command) for name, command in commands())])


def _below(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    # Before a lazy command is called, the group itself knows its summary only.
    context = group.context_class(group, info_name=name)
    for child in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [child])
        if hasattr(command, "list_commands"):
            yield from _below(command, f"{name} {child}")
        else:
            yield f"{name} {child}", command


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join([name, *map(_in_usage, arguments), *(["[OPTIONS]"] if options else [])])
    rows = [_row(f"`{one.name.upper()}`", one) for one in arguments]
    rows += [_row(_spelling(one), one) for one in options]
    table = ["| argument or option | means |", "|---|---|", *rows, ""] if rows else []
    return "\n".join([f"## `{name}`", "", "```", usage, "```", "", _help(command), "", *table])


def _in_usage(argument: Any) -> str:
    name = argument.name.upper()
    name += "..." if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _spelling(option: Any) -> str:
    """Return an option as it is written: `--host HOST`, or both forms of a switch."""
    names = "`, `".join([*option.opts, *option.secondary_opts])
    return f"`{names}`" if option.is_flag else f"`{names} {option.name.upper()}`"


def _row(name: str, parameter: Any) -> str:
    meaning = _plain(parameter.help or "")
    default = parameter.default
    if default not in (None, False, "", (), [], ...) and not callable(default):
        shown = getattr(default, "value", default)
        meaning += f" Default: `{shown}`." if shown is not True else " On by default."
    if parameter.required:
        meaning += " Required."
    return f"| {name} | {' '.join(meaning.split())} |"


def _help(command: Any) -> str:
    r"""Return the help as Markdown: what follows a `\b` keeps its lines."""
    shown = _plain(inspect.cleandoc(command.help or ""))
    paragraphs = []
    for paragraph in shown.split("\n\n"):
        if paragraph.startswith("\b"):
            lines = inspect.cleandoc(paragraph.removeprefix("\b").lstrip("\n"))
            paragraphs.append(f"```\n{lines}\n```")
        else:
            paragraphs.append(" ".join(paragraph.split()))
    return "\n\n".join(paragraphs)


def _plain(text: str) -> str:
    """Return help without the backslashes that keep brackets from being markup of rich's."""
    return re.sub(r"\\\[", "[", text)
