"""A run that is killed at any moment ends as if it had never been."""

import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.some_now import some_now
from tests.training import small_run
from tests.warm_python import WarmProcess, WarmPython

from agentfly.observe import read_trajectories

ROOT = Path(__file__).parents[2]
STEPS = 4
STEPS_OPTION = ("--steps", str(STEPS))
RUN_SECONDS = 2.5
"""About what a whole run takes, so that kills are spread over all of it."""


def start(python: WarmPython, folder: Path, *options: str) -> WarmProcess:
    """Start a run in a process that need not import torch first; what it says is in a file."""
    folder.mkdir(exist_ok=True)
    arguments, said = (str(folder), *STEPS_OPTION, *options), folder / "said.txt"
    streams = (os.devnull, said, said)
    return python.start(*arguments, module=small_run.__name__, cwd=ROOT, streams=streams)


def finish(python: WarmPython, folder: Path, *options: str) -> int:
    """Run to the end, or to the kill."""
    code = start(python, folder, *options).wait()
    assert code in (0, -signal.SIGKILL), (folder / "said.txt").read_text()
    return code


def options_for(folder: Path) -> list[str]:
    begun = (folder / "small" / "config.toml").exists()
    return ["--resume"] if begun else []


def weights(folder: Path) -> str:
    file = folder / "small" / "checkpoints" / f"step_{STEPS}" / "model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()


def trained_groups(folder: Path) -> list[str]:
    """Read the ledger as its journal has it, what was undone left out."""
    kept: list[dict[str, object]] = []
    for line in (folder / "small" / "ledger.jsonl").read_text().splitlines():
        change = json.loads(line)
        if change["do"] == "rewind":
            steps = [c["step"] if c["do"] == "train" else None for c in kept]
            del kept[steps.index(change["step"]) + 1 if change["step"] else 1 :]
        else:
            kept.append(change)
    return [g for c in kept if c["do"] == "train" for g in c["groups"]]  # type: ignore[attr-defined]


def assert_no_task_was_lost_or_repeated(folder: Path, undisturbed: Path) -> None:
    groups = trained_groups(folder)
    assert len(groups) == len(set(groups)) == STEPS * 3
    assert set(groups) == set(trained_groups(undisturbed))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert finish(warm_python, folder, "--deterministic") == 0
    return folder


@pytest.mark.parametrize(
    "moment", some_now(["tool:5", "publish:2", "renamed:1", "rename:2"], every=2)
)
def test_killed_at_a_chosen_moment_it_ends_with_the_same_weights(
    undisturbed: Path, tmp_path: Path, warm_python: WarmPython, moment: str
) -> None:
    assert finish(warm_python, tmp_path, "--deterministic", "--kill", moment) == -signal.SIGKILL
    assert finish(warm_python, tmp_path, "--deterministic", *options_for(tmp_path)) == 0
    assert weights(tmp_path) == weights(undisturbed)
    assert trained_groups(tmp_path) == trained_groups(undisturbed)
    assert_no_task_was_lost_or_repeated(tmp_path, undisturbed)


@pytest.mark.parametrize("moment", some_now(["tool:12", "train:3", "renamed:2"], every=3))
def test_killed_while_it_samples_ahead_it_loses_and_repeats_no_task(
    undisturbed: Path, tmp_path: Path, warm_python: WarmPython, moment: str
) -> None:
    ahead = ("--max-staleness", "2")
    assert finish(warm_python, tmp_path, *ahead, "--kill", moment) == -signal.SIGKILL
    assert finish(warm_python, tmp_path, *ahead, *options_for(tmp_path)) == 0
    assert_no_task_was_lost_or_repeated(tmp_path, undisturbed)
    assert_no_token_was_older_than(2, tmp_path)


def assert_no_token_was_older_than(bound: int, folder: Path) -> None:
    for step in range(1, STEPS + 1):
        for chain in read_trajectories(folder / "small" / "trajectories" / f"step_{step}.jsonl.gz"):
            runs = [
                run for turn in chain.turns if turn.completion for run in turn.completion.versions
            ]
            assert all(step - 1 - bound <= version < step for version, _ in runs)


def kill_at_random(python: WarmPython, folder: Path, rng: random.Random, *options: str) -> int:
    """Start and kill until a process comes to its end; return how many were killed."""
    kills = 0
    while (code := run_for_a_while(python, folder, rng, *options)) == -signal.SIGKILL:
        kills += 1
    said = (folder / "said.txt").read_text()
    # Killed after its last checkpoint, a run has nothing left to do, and says so.
    assert code == 0 or "has taken all of its 4 steps" in said, said
    return kills


def run_for_a_while(python: WarmPython, folder: Path, rng: random.Random, *options: str) -> int:
    """Kill a run some time after it has begun to sample, and return its exit code."""
    ledger = folder / "small" / "ledger.jsonl"
    before = size(ledger)
    process = start(python, folder, *options, *options_for(folder))
    while not has_ended(process) and size(ledger) <= before:
        time.sleep(0.005)
    kill_at = time.monotonic() + rng.uniform(0.0, RUN_SECONDS)
    while not has_ended(process) and time.monotonic() < kill_at:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    return process.wait()


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def has_ended(process: WarmProcess) -> bool:
    """Return whether nothing but its exit code is left of a process."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_ten_random_moments_it_ends_with_the_same_weights(
    undisturbed: Path, tmp_path: Path, warm_python: WarmPython
) -> None:
    rng, kills, attempt = random.Random(7), 0, 0
    while kills < 10:
        folder = tmp_path / str(attempt)
        kills += kill_at_random(warm_python, folder, rng, "--deterministic")
        attempt += 1
        assert weights(folder) == weights(undisturbed)
        assert trained_groups(folder) == trained_groups(undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_outside_deterministic_mode_the_ledger_agrees_too(
    undisturbed: Path, tmp_path: Path, warm_python: WarmPython
) -> None:
    kill_at_random(warm_python, tmp_path, random.Random(11))
    assert_no_task_was_lost_or_repeated(tmp_path, undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_ten_random_moments_while_it_samples_ahead_the_ledger_agrees(
    undisturbed: Path, tmp_path: Path, warm_python: WarmPython
) -> None:
    rng, kills, attempt = random.Random(13), 0, 0
    while kills < 10:
        folder = tmp_path / str(attempt)
        kills += kill_at_random(warm_python, folder, rng, "--max-staleness", "2")
        attempt += 1
        assert_no_task_was_lost_or_repeated(folder, undisturbed)
        assert_no_token_was_older_than(2, folder)
