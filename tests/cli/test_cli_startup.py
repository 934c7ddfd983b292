"""Lists of commands are shown without importing the commands."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
from tests.patience import PATIENCE
from typer.testing import CliRunner

from agentfly.cli import envs, main
from agentfly.cli.lazy_group import LazyCommand
from agentfly.environments import find_definition
from agentfly.environments.index import INDEX

HEAVY = ("torch", "transformers", "numpy", "pydantic", "jinja2", "asyncio", "httpx2", "tomlkit")

PROGRAM = """\
import json, sys
from agentfly.cli.main import app
try:
    app()
except SystemExit as exit:
    assert not exit.code, exit.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def modules_of(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    found: list[str] = json.loads(done.stderr)
    return found


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["envs", "--help"]])
def test_no_command_is_imported_for_a_list(arguments: list[str]) -> None:
    modules = modules_of(*arguments)
    assert [name for name in HEAVY if name in modules] == []
    own = {name for name in modules if name.startswith("agentfly.")}
    assert len(own) < 20, own


def test_listing_environments_imports_none_of_them() -> None:
    modules = modules_of("envs", "list")
    assert [name for name in HEAVY if name in modules] == []
    assert "agentfly.environments.code" not in modules


def test_the_check_of_modules_can_see_something() -> None:
    assert "pydantic" in modules_of("train", "--help")


COMMANDS = {**main.COMMANDS, **{f"envs {name}": each for name, each in envs.COMMANDS.items()}}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_the_first_sentence_of_the_help(name: str) -> None:
    lazy: LazyCommand = COMMANDS[name]
    command = lazy.load(name)
    assert command.help.partition("\n\n")[0].replace("\n", " ") == lazy.summary


@pytest.mark.parametrize("name", INDEX)
def test_the_index_says_what_the_environments_say(name: str) -> None:
    assert find_definition(name).summary == INDEX[name].summary


def test_the_version() -> None:
    shown = CliRunner().invoke(main.app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"agentfly {version('agentfly')}\n")


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    shown = CliRunner().invoke(main.app, ["trian"])
    assert shown.exit_code == 2
    assert "Did you mean 'train'" in shown.output


def test_each_command_shows_its_own_help() -> None:
    shown = CliRunner().invoke(main.app, ["envs", "serve", "--help"])
    assert shown.exit_code == 0, shown.output
    assert "agentfly envs serve" in shown.output.replace("root", "agentfly")
    assert "--max-sessions" in shown.output
