"""`agentfly check`, as a person would run it."""

import importlib.util
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.warm_python import WarmPython

from agentfly.chat import CHATML

Check = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def check(warm_python: WarmPython) -> Check:
    return partial(warm_python.finish, "check", module="agentfly.cli", cwd=Path.cwd())


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "chatml.jinja"
    path.write_text(CHATML)
    return path


def test_a_good_template_passes(check: Check, template: Path) -> None:
    run = check(str(template))
    assert run.returncode == 0, run.stderr
    assert "sampled tokens are kept: yes" in run.stdout
    assert "call format: ok; hermes" in run.stdout
    assert "<|im_end|>" in run.stdout


def test_a_template_that_rewrites_history_is_reported(check: Check) -> None:
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
    check: Check, template: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    filled = [a.format(template=template, folder=tmp_path) for a in arguments]
    run = check(*filled)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert words in run.stderr
    assert "Traceback" not in run.stderr


def test_a_word_that_is_no_variable_is_reported_as_one(check: Check, template: Path) -> None:
    run = check(str(template), "--template-option", "thinking")
    assert run.returncode == 2
    said = "thinking: an option is written key=value, such as enable_thinking=false"
    assert run.stderr.rstrip().endswith(said)


def test_help_teaches(check: Check) -> None:
    run = check("--help")
    assert run.returncode == 0
    assert "chat template" in run.stdout
