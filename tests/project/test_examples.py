"""Every example runs."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-W", "error", str(path)], check=True, timeout=PATIENCE, cwd=tmp_path
    )


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
