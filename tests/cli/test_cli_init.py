"""`agentfly init`: each project is complete, and its tests pass."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.usable_environments import usable_definition
from typer.testing import CliRunner

from agentfly.cli.init import OPTIONS, write_project
from agentfly.cli.main import app
from agentfly.config import load_settings
from agentfly.environments import make_kit
from agentfly.environments.index import INDEX

FILES = {"README.md", "parts.py", "run.toml", "test_project.py"}


def test_the_plain_project_passes_its_own_tests(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path / "prices")])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "prices"
    assert {path.name for path in folder.iterdir()} == FILES | {"tasks.py"}
    assert load_settings(folder / "run.toml").name == "prices"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(
        [*command, "-o", "asyncio_default_fixture_loop_scope=function"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr
    again = CliRunner().invoke(app, ["init", str(folder)])
    assert (again.exit_code, "exists already" in again.output) == (2, True)


@pytest.mark.parametrize("name", ["", "a b", "../up/..", "-x"])
def test_a_name_that_is_no_folder_of_a_project_is_refused(name: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", "--", str(tmp_path / "new") + "/" + name])
    assert done.exit_code == 2 or name == ""


def test_every_environment_has_a_project() -> None:
    assert set(OPTIONS) == set(INDEX)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_environments_project_has_options_that_it_takes(name: str, tmp_path: Path) -> None:
    folder = write_project(tmp_path / name, name)
    assert {path.name for path in folder.iterdir()} == FILES
    assert "ENVIRONMENT" not in (folder / "test_project.py").read_text()
    (source,) = load_settings(folder / "run.toml").source
    assert source.environment == name
    kit = make_kit(usable_definition(name), source.options)
    assert kit.gold or kit.expert, "its test plays one"


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_every_project_is_ready_to_train(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_project(tmp_path / name, name))
    done = CliRunner().invoke(app, ["train", "run.toml", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "VERDICT: ready, nothing is in the way" in done.output
