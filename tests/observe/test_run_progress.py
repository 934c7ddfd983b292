"""Bars on a terminal, plain lines elsewhere, nothing when quiet."""

import io
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console
from tests.patience import wait_until

from agentfly.config import EvalSettings
from agentfly.observe.run_progress import RunProgress, evaluation_line, step_line

STEP = {
    "reward/mean": 0.614,
    "reward/solved": 0.58,
    "tools/failed_share": 0.031,
    "chains/failed_share": 0.0,
    "tokens/per_second": 812.4,
    "time/generation": 4.12,
    "time/tools": 0.21,
    "time/environments": 0.0,
    "time/training": 6.0,
}
LINE = (
    "step 12/60  reward 0.61  solved 58%  tool errors 3%  812 tok/s  gen 4.1s  tools 0.2s  "
    "train 6.0s"
)


def a_run(progress: RunProgress) -> None:
    with progress:
        progress.start(60, done=11)
        progress.step_started(12, chains=2)
        progress.chains_done(1)
        progress.chains_done(1)
        progress.step_done(12, STEP)
        progress.evaluation_started(1)
        progress.chains_done(1)
        progress.evaluation_done(12, {"eval/reward": 0.5})
        progress.message("[bold] is no markup, and a \x1b[2J is kept from the terminal")
    progress.close()


def test_the_lines() -> None:
    assert step_line(12, 60, STEP) == LINE
    assert step_line(3, 60, {}) == "step  3/60"
    failing = step_line(3, 60, {"chains/failed_share": 0.25, "time/environments": 1.0})
    assert failing == "step  3/60  failed 25%  env 1.0s"
    assert evaluation_line(0, {"eval/pass@1": 0.5, "eval/solved": 0.5}) == "eval step 0  solved 50%"
    several = {"eval/pass@8": 0.8, "eval/pass@16": 0.9}
    assert evaluation_line(4, several) == "eval step 4  pass@16 90%"


def test_the_size_of_evaluations_is_said_before_the_first() -> None:
    file = io.StringIO()
    with RunProgress(Console(file=file)) as progress:
        for step in (0, 10):
            progress.evaluation_started(96, EvalSettings().size_text(24))
            progress.evaluation_done(step, {"eval/reward": 0.5})
    said = "each evaluation takes 96 chains: 24 held-out tasks, eval.num_chains = 4"
    assert file.getvalue().splitlines() == [
        said,
        "eval step 0  reward 0.50",
        "eval step 10  reward 0.50",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_where_there_is_no_real_terminal_there_are_plain_lines(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    file = io.StringIO()
    a_run(RunProgress(Console(file=file, width=40, force_terminal=terminal)))
    assert file.getvalue().splitlines() == [
        LINE,
        "eval step 12  reward 0.50",
        "[bold] is no markup, and a \N{REPLACEMENT CHARACTER}[2J is kept from the terminal",
    ]


def test_under_capture_nothing_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    a_run(RunProgress())
    assert capsys.readouterr().out.startswith(LINE)


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    a_run(RunProgress(quiet=True))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_two_bars_and_keeps_the_lines(tmp_path: Path) -> None:
    code = f"""
import sys, time
from agentfly.observe.run_progress import RunProgress
with RunProgress() as progress:
    progress.start(60, done=11)
    progress.step_started(12, chains=4)
    progress.chains_done(1)
    time.sleep(0.3)
    progress.step_done(12, {STEP!r})
    print("from a library")
"""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    while block := read(ours):
        seen += block
    os.close(ours)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert re.search(r"run +━+.* 11/60", text)
    assert re.search(r"step 12 +━+.* 1/4", text)
    assert LINE in text
    assert "from a library" in text


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is gone
        return b""


def test_a_silent_run_says_every_so_often_how_far_it_is() -> None:
    shown = io.StringIO()
    progress = RunProgress(Console(file=shown, force_terminal=False), first=0.0, seconds=0.001)
    with progress:
        wait_until(
            lambda: re.search(r"^loading: \d+:\d\d since the start$", shown.getvalue(), re.M)
        )
        progress.start(60)
        progress.step_started(1, chains=64)
        progress.chains_done(8)
        wait_until(lambda: "\nstep 1: 8 of 64 chains done, 0:0" in shown.getvalue())
        progress.chains_done(64)
        replaced = "\nstep 1: 72 chains done, 64 needed, 0:0"
        wait_until(lambda: replaced in shown.getvalue())
        assert "learning, " not in shown.getvalue(), "chains that teach nothing are replaced"
        progress.learning_started()
        wait_until(lambda: "\nstep 1: learning, " in shown.getvalue())
        progress.step_done(1, {})
        wait_until(lambda: "\nstep 2: 0:0" in shown.getvalue())
    before = shown.getvalue()
    assert "agentfly-heartbeat" not in {thread.name for thread in threading.enumerate()}
    assert shown.getvalue() == before


def test_a_warm_start_shows_its_loss_and_a_policy_gradient_does_not() -> None:
    assert step_line(1, 9, {"train/loss": 1.23456}) == "step 1/9  loss 1.2346"
    assert step_line(1, 9, {"train/loss": 1.23456, "reward/mean": 0.5}) == "step 1/9  reward 0.50"
