"""`agentfly check`, as a person would run it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from agentfly.chat import CHATML


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentfly.cli", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "chatml.jinja"
    path.write_text(CHATML)
    return path


def test_a_good_template_passes(template: Path) -> None:
    run = check(str(template))
    assert run.returncode == 0, run.stderr
    assert "sampled tokens are kept: yes" in run.stdout
    assert "call format: ok; hermes" in run.stdout
    assert "<|im_end|>" in run.stdout


def test_a_template_that_rewrites_history_is_reported() -> None:
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    (qwen3,) = Path(spec.origin).parent.rglob("qwen3.jinja")
    run = check(str(qwen3))
    assert run.returncode == 0, run.stderr
    assert "rewrit" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-model-at-all"], "unknown model"),
        (["{template}", "--format", "hermess"], "Did you mean 'hermes'?"),
        (["{folder}"], "config.json"),
    ],
)
def test_problems_are_reported_in_one_line(
    template: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    filled = [a.format(template=template, folder=tmp_path) for a in arguments]
    run = check(*filled)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert words in run.stderr
    assert "Traceback" not in run.stderr


def test_help_teaches() -> None:
    run = check("--help")
    assert run.returncode == 0
    assert "chat template" in run.stdout
