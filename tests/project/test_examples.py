"""Every example runs."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest
from docs_build.code_blocks import shown_outputs
from tests.warm_python import WarmPython

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG_EXAMPLE = ROOT / "examples" / "one_page_grpo.py"
"""Takes a minute on a busy machine; the ordinary suite runs its first step."""
TESTED_BELOW = {"hello.py", "ten_lines.py"}
PATIENT = pytest.mark.timeout(6 * 3600)
"""A busy machine trains as well as a quiet one, only later."""
NO_LIMITS = ("rollout.chain_seconds=36000", "rollout.stall_seconds=36000")
"""For the same reason no chain is left out for its time."""


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=pytest.mark.slow if path == LONG_EXAMPLE else ())
        for path in EXAMPLES
        if path.name not in TESTED_BELOW
    ],
)
def test_the_example_runs_and_prints_what_the_pages_show(
    path: Path, tmp_path: Path, warm_python: WarmPython
) -> None:
    printed = warm_python.run(path, cwd=tmp_path)
    for shown in shown_outputs(f"examples/{path.name}"):
        assert shown == printed, "run `make docs-sync` (python -m docs_build) with --outputs"


def test_the_first_step_of_the_long_example_runs(tmp_path: Path, warm_python: WarmPython) -> None:
    program = tmp_path / "first_step.py"
    program.write_text(f"""
import asyncio, runpy
names = runpy.run_path({str(LONG_EXAMPLE)!r})
assert len(asyncio.run(names["train"](steps=1))) == 1
""")
    warm_python.run(program, cwd=tmp_path)


def test_a_whole_run_takes_ten_lines_and_names_its_model_once() -> None:
    source = (ROOT / "examples" / "ten_lines.py").read_text()
    code = [line for line in source.partition('"""\n')[2].splitlines() if line.strip()]
    assert len(code) <= 10
    assert source.count('"tiny"') == 1


@PATIENT
@pytest.mark.slow
def test_the_reward_of_the_ten_lines_rises(tmp_path: Path) -> None:
    rewards = json.loads(run_example("ten_lines.py", tmp_path).rpartition("reward: ")[2])
    print("reward by step:", rewards)
    assert max(rewards[:2]) < 0.75
    assert mean(rewards[-5:]) > mean(rewards[:2]) + 0.2


@PATIENT
@pytest.mark.slow
@pytest.mark.parametrize("name", ["warehouse", "own_parts"])
def test_the_held_out_reward_of_the_first_runs_rises(name: str, tmp_path: Path) -> None:
    settings = str(ROOT / "examples" / f"{name}.toml")
    command = [sys.executable, "-m", "agentfly.cli", "train", settings, "--trust"]
    subprocess.run([*command, f"folder={tmp_path}", *NO_LIMITS], check=True, cwd=tmp_path)
    lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
    rewards = [json.loads(line)["metrics"].get("eval/reward") for line in lines]
    held_out = [reward for reward in rewards if reward is not None]
    print("held-out reward:", held_out)
    assert held_out[-1] > held_out[0] + 0.2


@PATIENT
@pytest.mark.slow
def test_the_agent_of_the_readme_answers_as_shown(tmp_path: Path) -> None:
    printed = run_example("hello.py", tmp_path)
    shown = shown_outputs("examples/hello.py")
    assert shown
    assert set(shown) == {printed}


def test_the_readme_leads_with_an_agent_a_run_and_a_file_of_settings() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme.index("examples/hello.py") < readme.index("examples/ten_lines.py")
    assert readme.index("examples/ten_lines.py") < readme.index("```toml")
    assert "ScriptedEngine" not in readme


def run_example(name: str, folder: Path) -> str:
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(command, check=True, cwd=folder, stdout=subprocess.PIPE, text=True)
    return done.stdout
