"""A settings file from elsewhere runs no code that came with it, unless its reader agrees."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from tests.cli.terminal import warm_agentfly
from tests.warm_python import WarmPython
from typer.testing import CliRunner

from agentfly.cli.sft import sft
from agentfly.cli.train import train
from agentfly.cli.validate import validate
from agentfly.observe.run_folder import RunFolder

CODE = """
from pathlib import Path
Path(__file__).with_name("it_ran").touch()
from agentfly import reward, tool, group_reward

@reward
def correct(final_response: str, answer: str) -> float:
    return float(final_response == answer)

@tool
def search(query: str) -> str:
    "Search."
    return query

def rows():
    return [{"question": "2+2?", "answer": "4"}]

def everything(turns):
    return [True] * len(turns)
"""
ROW = '{"question": "What is 2+2?", "answer": "4"}\n'
CHAT = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
RUN = 'name = "found"\nmodel.name = "tiny"\n{top}\n[[source]]\ntasks = "rows.jsonl"\n{source}\n'

app = typer.Typer(pretty_exceptions_enable=False)
for command in (train, sft, validate):
    app.command()(command)


@pytest.fixture
def downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with code in it, which is not the working directory."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "found_code", raising=False)
    folder, here = tmp_path / "downloaded", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    (folder / "found_code.py").write_text(CODE)
    (folder / "rows.jsonl").write_text(ROW)
    (folder / "chats.jsonl").write_text(CHAT)
    return folder


def write(folder: Path, *, top: str = "", source: str = 'reward = "numeric_match"') -> Path:
    path = folder / "found.toml"
    path.write_text(RUN.format(top=top, source=source))
    return path


def write_sft(folder: Path) -> Path:
    path = folder / "found.toml"
    text = 'name = "warm"\nmodel.name = "tiny"\n[data]\nfiles = ["chats.jsonl"]\n'
    path.write_text(text + 'mask = "found_code:everything"\n')
    return path


def write_begun(folder: Path) -> Path:
    RunFolder.create(folder.with_name("here") / "runs" / "found", config="").close()
    return write(folder, source='reward = "found_code:correct"')


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


WAYS: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "reward": (lambda f: write(f, source='reward = "found_code:correct"'), ["train", "--dry-run"]),
    "tool": (
        lambda f: write(f, source='reward = "numeric_match"\ntools = ["found_code:search"]'),
        ["train", "--dry-run"],
    ),
    "tasks": (
        lambda f: write(f, source='reward = "numeric_match"\neval_tasks = "found_code:rows"'),
        ["train", "--dry-run"],
    ),
    "mask": (lambda f: write(f, top='rollout.mask = "found_code:everything"'), ["train"]),
    "algorithm": (lambda f: write(f, top='algorithm.name = "found_code:everything"'), ["train"]),
    "validate": (lambda f: write(f, source='reward = "found_code:correct"'), ["validate"]),
    "sft": (write_sft, ["sft", "--dry-run"]),
    "resume": (write_begun, ["train", "--resume"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_in_a_pipe_code_next_to_the_file_is_refused_with_the_way_out(
    downloaded: Path, way: str
) -> None:
    make, (command, *options) = WAYS[way]
    code, output = run(command, make(downloaded), *options)
    assert not (downloaded / "it_ran").exists()
    assert code == 2
    assert "runs code that came with it, with your rights" in output
    assert "found_code:" in output
    assert "--trust" in output


@pytest.mark.parametrize(
    "top",
    [
        'engine.python = "./evil"',
        'engine.arguments = ["--middleware", "evil.run"]',
        'engine.variables = {LD_PRELOAD = "./evil.so"}',
    ],
)
def test_a_file_that_chooses_what_a_server_runs_is_asked_about(downloaded: Path, top: str) -> None:
    file = write(downloaded, top=f'engine.name = "vllm"\n{top}')
    code, output = run("train", file, "--dry-run")
    assert code == 2
    assert f"{top.partition(' ')[0]}: " in output
    assert "of a vLLM server that is started" in output


def test_a_further_file_from_another_folder_is_asked_about(downloaded: Path) -> None:
    own, further = write(Path()), downloaded / "further.toml"
    further.write_text('engine.name = "vllm"\nengine.arguments = ["--middleware", "evil.run"]\n')
    code, output = run("train", own, further, "--dry-run")
    assert (code, "engine.arguments: ('--middleware', 'evil.run')" in output) == (2, True), output
    assert f"{own} + {further} runs code" in output


@pytest.mark.parametrize("way", ["reward", "validate", "sft"])
def test_code_that_is_trusted_runs(downloaded: Path, way: str) -> None:
    make, (command, *options) = WAYS[way]
    code, output = run(command, make(downloaded), *options, "--trust")
    assert (code, (downloaded / "it_ran").exists()) == (0, True), output


def test_code_in_the_working_directory_is_the_users_own(
    downloaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(downloaded)
    make, (command, *options) = WAYS["reward"]
    assert run(command, make(Path()), *options)[0] == 0
    assert (downloaded / "it_ran").exists()


def test_a_file_that_names_code_of_the_working_directory_is_not_asked_about(
    downloaded: Path,
) -> None:
    (downloaded / "found_code.py").rename("found_code.py")
    make, (command, *options) = WAYS["reward"]
    assert run(command, make(downloaded), *options)[0] == 0
    assert Path("it_ran").exists()


def test_files_that_are_not_named_take_no_packages_place(downloaded: Path) -> None:
    """Beside a file that names an installed module, `peft.py` would be run for the real one."""
    source = 'reward = "numeric_match"\neval_tasks = "collections:deque"'
    assert run("train", write(downloaded, source=source), "--dry-run")[0] == 0
    assert str(downloaded) not in sys.path


def test_a_model_s_own_code_is_asked_about_unless_the_user_says_so(downloaded: Path) -> None:
    file = write(downloaded, top="model.trust_remote_code = true")
    code, output = run("train", file, "--dry-run")
    assert (code, "model.trust_remote_code: the Python files of tiny" in output) == (2, True)
    assert run("train", file, "--dry-run", "model.trust_remote_code=true")[0] == 0
    assert run("train", file, "--dry-run", "--trust")[0] == 0


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False), ("", False)])
def test_at_a_terminal_it_is_asked(
    downloaded: Path, warm_python: WarmPython, answer: str, runs: bool
) -> None:
    file = write(downloaded, source='reward = "found_code:correct"')
    with warm_agentfly(warm_python, "train", str(file), "--dry-run") as (terminal, process):
        asked = terminal.wait_for(r"Run it\? \[y/N\]: ")
        assert "source.0.reward: found_code:correct" in asked
        assert not (downloaded / "it_ran").exists(), "it is asked before"
        terminal.type(f"{answer}\n")
        terminal.wait_for("trust_remote_code" if runs else "nothing was run")
        assert process.wait() == (0 if runs else 2)
    assert (downloaded / "it_ran").exists() is runs
