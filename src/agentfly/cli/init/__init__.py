"""`agentfly init`: a new project that runs, to be changed into one's own.

plain/             a tool, a reward, tasks, settings and tests
on_environment/    settings, a reward and tests on a built-in environment
"""

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from agentfly.cli.command import cli_errors
from agentfly.config.toml_writer import toml_value
from agentfly.errors import ConfigError
from agentfly.runtime.names import look_up

OPTIONS: dict[str, dict[str, object]] = {
    "code": {"levels": [1, 2]},
    "search": {"short": True, "k": 1, "hops": [1, 2]},
    "webshop": {"level": "easy", "page_size": 3},
    "alfworld": {"size": "small", "task_types": ["pick_and_place_simple"], "max_turns": 10},
    "browser": {"site": "miniwob", "tasks": ["click-button", "click-test"], "max_turns": 10},
    "scienceworld": {"tasks": ["find-non-living-thing"], "simplifications": ["easy"]},
}
"""Options with which each environment begins easy."""

SUFFIX = ".txt"
"""Ending of the files here, so that no program takes them for its own."""


def init(
    name: Annotated[str, typer.Argument(help="Name of the project and of its new folder.")],
    *,
    from_: Annotated[
        str | None,
        typer.Option("--from", help=f"The environment to build on: {', '.join(OPTIONS)}."),
    ] = None,
) -> None:
    """Create a small project: a tool, a reward, tasks, settings, and tests that pass.

    \b
        agentfly init prices
        agentfly init shopping --from webshop
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        if from_ is not None:
            look_up(from_, OPTIONS, "environment of a project")
        folder = write_project(Path(name), from_)
        typer.echo(f"{folder} is ready. Next:")
        for line in (f"cd {folder}", "python -m pytest", "agentfly train run.toml --dry-run"):
            typer.echo(f"  {line}")


def write_project(folder: Path, environment: str | None) -> Path:
    """Write the files of a project into a new folder.

    Raises:
        ConfigError: The folder is there and not empty, or its name is no project's.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", folder.name):
        raise ConfigError(
            f"{folder.name or '.'!r} can't be the name of a project: use letters, digits, - and _, "
            "as in 'prices'"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists already: name a new folder, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    replaced = {"PROJECT_NAME": folder.name}
    if environment is not None:
        options = toml_value(OPTIONS[environment], "options")
        replaced |= {"ENVIRONMENT": environment, "OPTIONS": options}
    template = files(__name__) / ("plain" if environment is None else "on_environment")
    for file in template.iterdir():
        text = file.read_text(encoding="utf-8")
        for mark, value in replaced.items():
            text = text.replace(mark, value)
        (folder / file.name.removesuffix(SUFFIX)).write_text(text, encoding="utf-8")
    return folder
