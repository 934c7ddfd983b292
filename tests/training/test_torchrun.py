"""A run that torchrun starts on three processes, ahead of its learner; one of them is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentfly.observe import read_metrics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = 3
SETTINGS = """
name = "run"
model = { name = "tiny", precision = "float32" }
rollout = { tasks_per_step = 2, num_chains = 4, max_tokens = 32, max_turns = 3, max_staleness = 1 }
train = { steps = 3, lr = 1e-4 }
eval = { at_start = false, at_end = false }
checkpoint = { every = 1 }

[[source]]
tasks = "rows.jsonl"
tools = ["calculator"]
reward = "numeric_match"
"""


def steps(run: Path) -> list[int]:
    file = run / "metrics.jsonl"
    return [record.step for record in read_metrics(file)] if file.exists() else []


def rank_two(parent: int) -> int:
    """Return the process of rank 2 among the children of torchrun."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            variables = (stat.parent / "environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"RANK=2" in variables:
            return int(stat.parent.name)
    raise AssertionError("torchrun has no process of rank 2")


def test_a_killed_process_is_started_again_from_the_last_checkpoint(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n}*{n + 7}?", "answer": str(n * (n + 7))} for n in range(30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "run.toml").write_text(SETTINGS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"]
    command = [*torchrun, "--max-restarts", "1", "-m", "agentfly.cli", "train", "run.toml"]
    run, output = tmp_path / "runs" / "run", tmp_path / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file)
    try:
        while not steps(run):
            assert process.poll() is None, output.read_text()[-3000:]
            time.sleep(0.05)
        os.kill(rank_two(process.pid), signal.SIGKILL)
        assert process.wait() == 0, output.read_text()[-3000:]
    finally:
        process.terminate()  # It ends its processes.
        process.wait()
    said = output.read_text()
    assert "resuming" in said
    assert said.count("The report: ") == 1, "rank 0 reports alone"
    assert steps(run) == list(range(1, STEPS + 1))
