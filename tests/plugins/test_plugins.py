"""A package of its own, really installed, brings an environment, an engine and an algorithm."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.warm_python import WarmPython

PACKAGE = Path(__file__).with_name("vowel_game")
SETTINGS = """\
name = "plugged"
folder = "{folder}"
model.name = "tiny"
engine.name = "noting"
[algorithm]
name = "scaled"
scale = 3.0
[rollout]
tasks_per_step = 2
num_chains = 2
max_tokens = 8
[train]
steps = 2
[track]
trackers = []
[[source]]
environment = "vowels"
options.questions = 4
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package without a network, and return where."""
    copy = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("package") / "vowel_game")
    target = tmp_path_factory.mktemp("site")
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    run([*install, "--no-deps", "--no-build-isolation", "--target", str(target), str(copy)], None)
    return target


def run(
    arguments: list[str], site: Path | None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run Python with the installed package on its path."""
    path = [str(site)] if site else []
    path += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "200", **variables}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def notes(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for what the package does, in processes that have it on their path."""
    path = tmp_path / "notes.txt"
    monkeypatch.setenv("VOWEL_GAME_NOTES", str(path))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    return path


def train(python: WarmPython, *arguments: str, cwd: Path) -> str:
    """Run `agentfly train` to its end, and return what it shows."""
    shown = cwd / "shown.txt"
    with python.agentfly("train", *arguments, cwd=cwd, output=str(shown)) as process:
        assert process.wait() == 0, shown.read_text()
    return shown.read_text()


def test_a_run_trains_with_what_the_package_brings(
    notes: Path, tmp_path: Path, warm_python: WarmPython
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(SETTINGS.format(folder=tmp_path / "runs"))
    assert "2 steps done" in train(warm_python, str(file), cwd=tmp_path)
    counted = Counter(notes.read_text().split("\n"))
    # Two steps, each with two groups of two chains of one turn.
    assert counted["environment"] == counted["engine"] == 8
    assert counted["algorithm scale=3.0"] == 4
    assert (tmp_path / "runs" / "plugged" / "checkpoints" / "step_2").is_dir()


def test_a_dry_run_fills_in_and_checks_what_the_package_takes(
    notes: Path, tmp_path: Path, warm_python: WarmPython
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(SETTINGS.format(folder=tmp_path / "runs").replace("scale = 3.0", ""))
    shown = train(warm_python, str(file), "--dry-run", cwd=tmp_path)
    assert "scale = 2.0" in shown
    assert "VERDICT: ready, nothing is in the way" in shown


CODE = """
from agentfly.agents.registry import find_group_reward, find_reward, find_tools
from agentfly.chat.formats import get_format
from agentfly import load_environment
print(find_tools("count_vowels")[0].spec.name, find_reward("vowel_share").name)
print(find_group_reward("most_vowels").name, get_format("shouted").name)
print(len(list(load_environment("vowels", questions=3).tasks())))
"""


def test_the_other_parts_are_found_by_name_and_environments_are_listed(site: Path) -> None:
    found = run(["-c", CODE], site).stdout.split()
    assert found == ["count_vowels", "vowel_share", "most_vowels", "shouted", "3"]
    listed = run(["-m", "agentfly.cli", "envs", "list"], site).stdout
    assert "vowels" in listed
    assert "A game in which vowels score." in listed
    assert "webshop" in listed
