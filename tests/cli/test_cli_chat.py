"""`agentfly chat` in a real terminal, as a person would use it."""

import re
import shutil
from pathlib import Path

import pytest
from tests.cli.terminal import warm_agentfly
from tests.warm_python import WarmPython
from typer.testing import CliRunner

from agentfly.cli.main import app
from agentfly.config import RunSettings, to_toml
from agentfly.models import resolve_model
from agentfly.observe.run_folder import RunFolder
from agentfly.training.checkpoint import Checkpoints


def test_ctrl_c_stops_the_turn_and_not_the_program(warm_python: WarmPython) -> None:
    arguments = ("tiny-random", "--max-tokens", "3000", "--temperature", "1")
    with warm_agentfly(warm_python, "chat", *arguments) as (terminal, process):
        terminal.wait_for("> ")
        terminal.type("Tell me a long story.\n")
        terminal.wait_for(r"story\.\r\n[^>]{20,}")
        terminal.type("\x03")
        terminal.wait_for(r"\(stopped\)")
        terminal.wait_for("> ")
        terminal.type("/exit\n")
        assert process.wait() == 0


def copy_tiny(folder: Path) -> None:
    shutil.copytree(resolve_model("tiny"), folder, dirs_exist_ok=True)


def test_the_model_of_a_run_has_its_tools_and_a_result_is_shown(
    tmp_path: Path, warm_python: WarmPython
) -> None:
    settings = RunSettings.model_validate(
        {
            "name": "sums",
            "model": {"name": "tiny"},
            "source": [{"tasks": "none.jsonl", "tools": ["calculator"], "reward": "numeric_match"}],
        }
    )
    (tmp_path / "none.jsonl").write_text('{"question": "What is 1+1?", "answer": "2"}\n')
    with RunFolder.create(tmp_path / "sums", config=to_toml(settings), base=tmp_path) as run:
        Checkpoints(run.checkpoints_folder).save(3, copy_tiny)
    arguments = (str(tmp_path / "sums"), "--temperature", "0")
    with warm_agentfly(warm_python, "chat", *arguments) as (terminal, process):
        begin = terminal.wait_for("> ")
        assert re.search(r"model: \S+/checkpoints/step_3\r?\ntools: calculator\r?\n", begin)
        terminal.type("What is 23*41?\n")
        shown = terminal.wait_for(r"(?s)calculator → .*\n> ")
        assert "<tool_call>" in shown, "what the model writes is streamed as it is"
        terminal.type("/new\n")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert process.wait() == 0


def test_the_line_can_be_edited(warm_python: WarmPython) -> None:
    pytest.importorskip("readline")
    with warm_agentfly(warm_python, "chat", "tiny-random") as (terminal, process):
        terminal.wait_for("> ")
        terminal.type("/exit now\x02\x02\x02\x02\x0b\n")  # four steps back, cut off the rest
        assert process.wait() == 0


def test_an_unknown_model_or_tool_is_reported_in_one_line() -> None:
    for arguments, words in (
        (["tinny"], "Did you mean 'tiny'"),
        (["tiny", "--tools", "calculater"], "Did you mean 'calculator'"),
    ):
        run = CliRunner().invoke(app, ["chat", *arguments])
        assert run.exit_code == 2
        assert words in run.stderr
        assert isinstance(run.exception, SystemExit)
