"""Runs as data: what there is, how each ended, its best score, its size on disk."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import lock_descriptor

from agentfly.config.override import dotted
from agentfly.errors import ConfigError, FormatError
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.run_folder import LOCK, MARK, METRICS, RESULT
from agentfly.observe.trackers.metrics_file import MetricsRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """A run as one row of a list."""

    run: RecordedRun
    state: str
    """`running`, `finished`, `stopped`, `reached its target`, or `damaged: …`."""
    step: int
    planned: int | None
    best: MetricsRecord | None
    """The evaluation with the highest held-out reward, the newest of equals: its step has a
    checkpoint, or is the model that the run began with."""
    reward: float | None
    """Mean training reward of the last step."""
    size: int
    """Bytes on disk."""

    @property
    def progress(self) -> str:
        """`12/60`, or `12` where the plan is not known."""
        return str(self.step) if self.planned is None else f"{self.step}/{self.planned}"


def list_runs(folder: Path) -> list[RunEntry]:
    """Return the runs in a folder, the one that was written last at the end."""
    runs = [mark.parent for mark in folder.glob(f"*/{MARK}")]
    return [describe_run(RecordedRun(path)) for path in sorted(runs, key=_last_written)]


def describe_run(run: RecordedRun) -> RunEntry:
    """Return what is known of a run; one that is damaged is described as far as possible."""
    problem = ""
    records: list[MetricsRecord] = []
    try:
        records = run.records
    except FormatError as error:
        problem = str(error)
    scored = [record for record in records if _counts(record, run)]
    rewards = [r.metrics["reward/mean"] for r in records if "reward/mean" in r.metrics]
    step = max((record.step for record in records), default=0)
    return RunEntry(
        run=run,
        state=f"damaged: {problem}" if problem else _state(run, step, rewards),
        step=step,
        planned=run.planned_steps,
        best=max(scored, key=lambda one: (one.metrics["eval/reward"], one.step), default=None),
        reward=rewards[-1] if rewards else None,
        size=_size(run.path),
    )


def _counts(record: MetricsRecord, run: RecordedRun) -> bool:
    """Return whether it is an evaluation by which a run chooses its best checkpoint."""
    most = run.settings.get("rollout", {}).get("max_failed_share", 1.0)
    metrics = record.metrics
    return "eval/reward" in metrics and metrics.get("eval/failed_share", 0.0) <= most


def _state(run: RecordedRun, step: int, rewards: list[float]) -> str:
    if is_running(run):
        return "running"
    if run.kind == "evaluation":
        return "finished" if (run.path / RESULT).exists() else "stopped"
    if run.planned_steps is not None and step >= run.planned_steps:
        return "finished"
    return "reached its target" if reached_target(run, rewards) else "stopped"


def reached_target(run: RecordedRun, rewards: Sequence[float]) -> bool:
    """Return whether the rewards of a run's steps have reached `train.target_reward`."""
    train = run.settings.get("train", {})
    target, window = train.get("target_reward"), train.get("target_window", 1)
    last = rewards[-window:]
    return target is not None and len(last) == window and sum(last) / window >= target


def is_running(run: RecordedRun) -> bool:
    """Return whether a process trains in the run's folder now."""
    lock = run.path / LOCK
    try:
        owner = int(lock.read_text())
        os.kill(owner, 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    with lock.open("a+") as file:
        # The number may be another process's by now; the lock is only held by a run.
        return not lock_descriptor(file.fileno(), blocking=False)


def remove_run(run: RecordedRun) -> None:
    """Delete a run's folder.

    Raises:
        ConfigError: A process trains in it, it is a link, it holds the working directory, or its
            run.json is not one of AgentFly's.
    """
    if run.path.is_symlink():
        raise ConfigError(f"{run.path} is a link: remove the link, or the folder that it names")
    if Path.cwd().is_relative_to(run.path.resolve()):
        raise ConfigError(f"the working directory is in {run.path.resolve()}: leave it first")
    if not run.has_mark:
        raise ConfigError(
            f"{run.path / MARK} is not one that AgentFly wrote, so {run.path} may be no run: if it "
            "is to go, delete the folder yourself"
        )
    with (run.path / LOCK).open("a+") as lock:
        if not lock_descriptor(lock.fileno(), blocking=False):
            raise ConfigError(f"a process is training in {run.path}: stop it first")
        shutil.rmtree(run.path)


def differences(one: RecordedRun, other: RecordedRun) -> Iterator[tuple[str, str, str]]:
    """Yield the settings in which two runs differ: key, value of the one, value of the other."""
    left, right = dict(flat_settings(one)), dict(flat_settings(other))
    for key in [*left, *(key for key in right if key not in left)]:
        values = left.get(key, "-"), right.get(key, "-")
        if values[0] != values[1]:
            yield key, *values


def flat_settings(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """Yield each setting of a run as text, with its dotted key: `source.0.kind`."""
    for key, value in dotted(run.settings):
        yield key, str(value)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _last_written(folder: Path) -> float:
    files = [folder / METRICS, folder / MARK]
    return max(file.stat().st_mtime for file in files if file.exists())
