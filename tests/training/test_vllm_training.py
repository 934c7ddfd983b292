"""The quick start's task, trained through a real vLLM server that is killed in the middle."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentfly.observe import read_metrics, read_trajectories

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart_vllm.toml"
STEPS = 30
"""The most that it may take: the first steps often have no solved chain to learn from."""
TARGET = 0.5
KILLED_AFTER = 2

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        "AGENTFLY_VLLM_PYTHON" not in os.environ, reason="AGENTFLY_VLLM_PYTHON is not set"
    ),
]


def start(folder: Path, *more: str, steps: int = STEPS) -> "subprocess.Popen[bytes]":
    changes = [
        f"folder={folder}",
        f"train.steps={steps}",
        f"train.target_reward={TARGET}",
        "eval.at_start=false",
        "eval.at_end=false",
        *more,
    ]
    command = [sys.executable, "-m", "agentfly.cli", "train", str(EXAMPLE), *changes]
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def rewards(run: Path) -> list[float]:
    file = run / "metrics.jsonl"
    records = [record.metrics for record in read_metrics(file)] if file.exists() else []
    return [metrics["reward/mean"] for metrics in records if "reward/mean" in metrics]


def processes() -> Iterator[tuple[int, int, int]]:
    """Yield the number, parent and session of every process."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            yield int(stat.parent.name), int(fields[1]), int(fields[3])


def servers(parent: int) -> set[int]:
    """Return the children of a run that lead sessions of their own."""
    return {pid for pid, above, session in processes() if above == parent and session == pid}


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def wait_for(run: "subprocess.Popen[bytes]", output: Path, holds: Callable[[], object]) -> None:
    """Wait for as long as the run goes on: the test's own time limit ends both."""
    while not holds():
        assert run.poll() is None, f"the run ended early:\n{output.read_text()[-3000:]}"
        time.sleep(0.05)


def test_it_learns_though_its_server_is_killed(tmp_path: Path) -> None:
    folder, output = tmp_path / "quickstart_vllm", tmp_path / "output.txt"
    run = start(tmp_path)
    try:
        wait_for(run, output, lambda: len(rewards(folder)) >= KILLED_AFTER)
        begun = size(folder / "events.jsonl")
        wait_for(run, output, lambda: size(folder / "events.jsonl") > begun)
        (first,) = servers(run.pid)
        os.kill(first, signal.SIGKILL)
        wait_for(run, output, lambda: servers(run.pid) - {first})
        (second,) = servers(run.pid) - {first}
        run.wait()
    finally:
        run.kill()
        run.wait()
    print(f"rewards: {rewards(folder)}")
    assert run.returncode == 0, output.read_text()[-3000:]
    assert "exited with code -9" in (folder / "log.txt").read_text()
    file = folder / "trajectories" / f"step_{KILLED_AFTER + 1}.jsonl"
    assert any(chain.attempt for chain in read_trajectories(file)), "some were tried again"
    measured = rewards(folder)
    assert sum(measured[-3:]) / 3 >= max(TARGET, sum(measured[:3]) / 3 + 0.2)
    assert not [pid for pid, _, session in processes() if session in (first, second)]
    assert not (folder / "published").exists()


def test_a_server_samples_ahead_of_the_learner_within_the_bound(tmp_path: Path) -> None:
    steps, bound = 4, 1
    folder, output = tmp_path / "quickstart_vllm", tmp_path / "output.txt"
    run = start(tmp_path, f"rollout.max_staleness={bound}", steps=steps)
    try:
        run.wait()
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, output.read_text()[-3000:]
    print(f"rewards: {rewards(folder)}")
    assert len(rewards(folder)) == steps
    lags = set()
    for step in range(1, steps + 1):
        for chain in read_trajectories(folder / "trajectories" / f"step_{step}.jsonl"):
            completions = [turn.completion for turn in chain.turns if turn.completion]
            versions = [version for one in completions for version, _ in one.versions]
            lags |= {step - 1 - version for version in versions}
    assert lags == {0, bound}, "it samples ahead, and never further than the bound"
