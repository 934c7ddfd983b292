"""Every example runs."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG_EXAMPLE = ROOT / "examples" / "one_page_grpo.py"
"""Takes a minute on a busy machine; the ordinary suite runs its first step."""


def test_there_are_examples() -> None:
    assert EXAMPLES


def run_python(*arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-W", "error", *arguments]
    subprocess.run(command, check=True, timeout=PATIENCE, cwd=cwd)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=pytest.mark.slow if path == LONG_EXAMPLE else ())
        for path in EXAMPLES
    ],
)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    run_python(str(path), cwd=tmp_path)


def test_the_first_step_of_the_long_example_runs(tmp_path: Path) -> None:
    program = f"""
import asyncio, runpy
names = runpy.run_path({str(LONG_EXAMPLE)!r})
assert len(asyncio.run(names["train"](steps=1))) == 1
"""
    run_python("-c", program, cwd=tmp_path)


def test_a_whole_run_takes_ten_lines_names_its_model_once_and_stands_in_the_readme() -> None:
    source = (ROOT / "examples" / "ten_lines.py").read_text()
    code = [line for line in source.partition('"""\n')[2].splitlines() if line.strip()]
    assert len(code) <= 10
    assert source.count('"tiny"') == 1
    assert source in (ROOT / "README.md").read_text()


def test_the_calculator_example_is_short_works_and_stands_in_the_readme() -> None:
    path = ROOT / "examples" / "calculator_agent.py"
    source = path.read_text()
    assert len(source.splitlines()) <= 60
    assert source in (ROOT / "README.md").read_text()
    out = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert "assistant: The product is 410." in out.stdout
