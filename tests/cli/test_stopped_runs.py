"""Runs that are stopped by a signal, in processes of their own, and what a resumed one says."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
import typer
from tests.cli import terminal
from tests.warm_python import WarmProcess, WarmPython
from typer.testing import CliRunner

import agentfly.training
from agentfly.cli import quickstart as quickstart_command
from agentfly.cli.quickstart import quickstart
from agentfly.training import RunFolder

TRAIN = """\
name = "sums"
model.name = "tiny"
rollout = { tasks_per_step = 1, num_chains = 2, max_tokens = 4, max_turns = 1 }
train.steps = 100000
checkpoint = { every = 100000 }
track.trackers = []
[[source]]
tasks = "sums.jsonl"
tools = ["calculator"]
example = "never"
reward = "numeric_match"
"""
SFT = """\
name = "warm"
model.name = "tiny"
data.files = ["chats.jsonl"]
train = { epochs = 100000, conversations_per_step = 1 }
checkpoint = { every = 100000 }
track.trackers = []
"""


class Run:
    """An `agentfly` command whose output is a pipe."""

    def __init__(self, process: WarmProcess, output: TextIO) -> None:
        self._process = process
        self._output = output
        self.shown = ""

    def wait_for(self, pattern: str) -> str:
        for line in self._output:
            self.shown += line
            if re.search(pattern, line):
                return line
        raise AssertionError(f"{pattern!r} was never shown:\n{self.shown}")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        self.shown += self._output.read()
        return self._process.wait()


@contextmanager
def running(python: WarmPython, folder: Path, *arguments: str) -> Iterator[Run]:
    pipe = folder / "pipe"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with (
        python.agentfly(*arguments, cwd=folder, output=str(pipe)) as process,
        pipe.open() as output,
    ):
        yield Run(process, output)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    row = {"question": "What is 2+2?", "answer": "4"}
    chat = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}
    (tmp_path / "sums.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "chats.jsonl").write_text((json.dumps(chat) + "\n") * 2)
    (tmp_path / "train.toml").write_text(TRAIN)
    (tmp_path / "sft.toml").write_text(SFT)
    return tmp_path


def test_a_killed_run_says_what_it_repeats_and_sigterm_saves(
    folder: Path, warm_python: WarmPython
) -> None:
    with running(warm_python, folder, "train", "train.toml") as run:
        run.wait_for(r"^step +3/")
        run.send(signal.SIGKILL)
        run.end()
        done = int(re.findall(r"^step +(\d+)/", run.shown, re.M)[-1])
    with running(warm_python, folder, "train", "train.toml", "--resume") as run:
        resumed = run.wait_for("resuming")
        assert f"at step 2, after its checkpoint of step 1: steps 2 to {done} came" in resumed
        run.wait_for(r"^step +2/")
        run.send(signal.SIGTERM)
        run.send(signal.SIGTERM)  # as `timeout` does
        assert run.end() == 128 + signal.SIGTERM, run.shown
        last = int(re.findall(r"^step +(\d+)/", run.shown, re.M)[-1])
        assert f"stopped by SIGTERM. What was learned up to step {last} is saved" in run.shown
        assert "go on with: agentfly train train.toml --resume\n" in run.shown
        assert "Traceback" not in run.shown
    assert (folder / "runs/sums/checkpoints" / f"step_{last}" / "manifest.json").exists()


def test_a_closed_terminal_leaves_a_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, warm_python: WarmPython
) -> None:
    monkeypatch.chdir(folder)
    with terminal.warm_agentfly(warm_python, "train", "train.toml") as (shown, process):
        shown.wait_for(r"step +1/")
        shown.hang_up()
        assert process.wait() == 128 + signal.SIGHUP
    assert list((folder / "runs/sums/checkpoints").glob("step_*/manifest.json"))


def test_sigterm_saves_a_warm_start(folder: Path, warm_python: WarmPython) -> None:
    with running(warm_python, folder, "sft", "sft.toml") as run:
        run.wait_for(r"^step +2/")
        run.send(signal.SIGTERM)
        assert run.end() == 128 + signal.SIGTERM, run.shown
        assert "stopped by SIGTERM. What was learned up to step" in run.shown
    # The first checkpoint is an early one: it was there before the signal.
    assert len(list((folder / "runs/warm/checkpoints").glob("step_*/manifest.json"))) == 2
    with running(warm_python, folder, "sft", "sft.toml", "--resume") as run:
        assert "nothing was lost after its checkpoint of step" in run.wait_for("resuming")


def test_sigterm_stops_the_quick_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(settings: agentfly.RunSettings, *, resume: bool) -> None:
        del resume
        RunFolder.create(settings.folder / settings.name, config="").close()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(quickstart_command, "fetch", lambda *_, **__: None)
    monkeypatch.setattr(agentfly.training, "train", train)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(quickstart)
    stopped = CliRunner().invoke(app, ["--folder", str(tmp_path)])
    assert stopped.exit_code == 128 + signal.SIGTERM
    assert "stopped by SIGTERM. No step was finished; go on with: agentfly quick" in stopped.stderr
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
