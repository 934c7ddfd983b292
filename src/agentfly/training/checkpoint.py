"""Checkpoints: numbered folders, each whole or absent even if the run is killed.

    checkpoints/
        step_10/                 the best by held-out reward
        step_40/
        step_50/                 the newest
            manifest.json        every file's size and checksum, written last
            model/, …            the trainer's own files
        step_60.part/            being written; left behind only by a killed process

A folder is filled under another name, synced to the disk, sealed by its manifest, and renamed. The
one moment in which a step has no folder under its own name is when a checkpoint of the same step is
replaced: the old one then waits as `step_N.old`, and is put back if the run was killed there.
"""

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentfly.errors import ConfigError, FormatError, RunError
from agentfly.runtime.journal import sync_folder
from agentfly.training.disk import disk_problem
from agentfly.training.manifest import DamagedError, read_manifest, verify_files, write_manifest

PART, OLD, GONE = ".part", ".old", ".gone"
"""Names of folders that are being written, replaced, or removed."""

Write = Callable[[Path], None]
"""Fills an empty folder with all that a run needs to continue."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A folder that was written to the end."""

    path: Path
    step: int
    score: float | None
    """Held-out reward of these weights, if it was measured; the higher the better."""


class Checkpoints:
    """The checkpoints of one run; the newest `keep` of them stay, and the best one.

    checkpoints = Checkpoints(Path("runs/demo/checkpoints"), keep=2)
    checkpoints.save(50, lambda folder: policy.save(folder / "model"), score=0.61)
    checkpoints.latest()        # Checkpoint(path=.../step_50, step=50, score=0.61)
    """

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise ConfigError(f"`keep` must be at least 1, got {keep}: a run needs one to resume")
        self._folder = folder
        self._keep = keep

    def save(self, step: int, write: Write, *, score: float | None = None) -> Checkpoint:
        """Let `write` fill a new checkpoint, then remove those that are not kept any more.

        Raises:
            RunError: It could not be written, for example because the disk is full. The
                checkpoints before it are untouched.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._put_back()
        self._clear()
        part = self._folder / f"step_{step}{PART}"
        try:
            _fill(part, write, step=step, score=score)
        except BaseException as error:
            free = shutil.disk_usage(self._folder).free
            shutil.rmtree(part, ignore_errors=True)
            if problem := disk_problem(error, free):
                raise RunError(self._not_saved(step, problem)) from error
            raise
        self._put_in_place(part, self._path(step))
        self._prune()
        return Checkpoint(path=self._path(step), step=step, score=score)

    def latest(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, or None where none was ever written.

        What is damaged is skipped with a warning.

        Raises:
            FormatError: There are checkpoints, and all of them are damaged.
        """
        damage: dict[Path, DamagedError] = {}
        found = next(self._whole(damage), None)
        if found is None and damage:
            reasons = "".join(f"\n  {path}: {problem}" for path, problem in damage.items())
            raise FormatError(
                f"no checkpoint can be resumed from:{reasons}\nRestore one of them from a copy, or "
                "start a new run under another name"
            )
        for path, problem in damage.items():
            _log.warning("%s is ignored: %s", path, problem)
        return found

    def best(self) -> Checkpoint | None:
        """Return the whole checkpoint with the highest score, the newer one of equals."""
        scored = [found for found in self._whole({}) if found.score is not None]
        return max(scored, key=_rank, default=None)

    def best_score(self) -> float | None:
        """Return the highest score of a checkpoint, without a look at its files."""
        found = [read for step in self._steps() if (read := self._readable(step))]
        return max((one.score for one in found if one.score is not None), default=None)

    def every(self) -> list[Checkpoint]:
        """Return all whole checkpoints, the oldest first."""
        return list(self._whole({}))[::-1]

    def _whole(self, damage: dict[Path, DamagedError]) -> Iterator[Checkpoint]:
        """Yield checkpoints newest first, each verified; put the damaged ones into `damage`."""
        self._put_back()
        for step in self._steps():
            path = self._path(step)
            try:
                manifest = read_manifest(path)
                verify_files(path, manifest)
            except DamagedError as problem:
                damage[path] = problem
            else:
                yield Checkpoint(path=path, step=step, score=manifest.score)

    def _steps(self) -> list[int]:
        """List the steps that have a folder, newest first."""
        names = (re.fullmatch(r"step_(\d+)", path.name) for path in self._folder.glob("step_*"))
        return sorted((int(name[1]) for name in names if name), reverse=True)

    def _path(self, step: int) -> Path:
        return self._folder / f"step_{step}"

    def _put_in_place(self, part: Path, path: Path) -> None:
        old = path.with_name(path.name + OLD)
        if path.exists():
            path.rename(old)
        part.rename(path)
        sync_folder(self._folder)
        shutil.rmtree(old, ignore_errors=True)

    def _put_back(self) -> None:
        """Finish what a process that was killed while replacing a checkpoint left undone."""
        for old in self._folder.glob(f"step_*{OLD}"):
            path = old.with_name(old.name.removesuffix(OLD))
            if not path.exists():
                old.rename(path)

    def _clear(self) -> None:
        for ending in (PART, OLD, GONE):
            for left in self._folder.glob(f"step_*{ending}"):
                shutil.rmtree(left, ignore_errors=True)

    def _prune(self) -> None:
        """Remove all but the newest and the best; what can't be read is left to its owner."""
        found = [read for step in self._steps() if (read := self._readable(step))]
        scored = [checkpoint for checkpoint in found if checkpoint.score is not None]
        kept = {checkpoint.step for checkpoint in found[: self._keep]}
        kept |= {best.step for best in [max(scored, key=_rank, default=None)] if best}
        for checkpoint in found:
            if checkpoint.step not in kept:
                # Renamed first: a kill in the middle of removing leaves no half of a checkpoint.
                gone = checkpoint.path.rename(checkpoint.path.with_suffix(GONE))
                shutil.rmtree(gone, ignore_errors=True)

    def _readable(self, step: int) -> Checkpoint | None:
        """Read a manifest without looking at the files."""
        path = self._path(step)
        try:
            return Checkpoint(path=path, step=step, score=read_manifest(path).score)
        except DamagedError:
            return None

    def _not_saved(self, step: int, problem: str) -> str:
        last = next(self._whole({}), None)
        kept = f"the last good one is {last.path}" if last else "there is no earlier one"
        return (
            f"the checkpoint of step {step} could not be written to {self._folder}: {problem}; "
            f"{kept}. Free some space, then continue with --resume"
        )


def _rank(checkpoint: Checkpoint) -> tuple[float, int]:
    assert checkpoint.score is not None
    return checkpoint.score, checkpoint.step


def _fill(part: Path, write: Write, *, step: int, score: float | None) -> None:
    part.mkdir()
    write(part)
    for path in write_manifest(part, step=step, score=score):
        _sync_file(path)
    for folder in (*(path for path in part.rglob("*") if path.is_dir()), part):
        sync_folder(folder)


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def export_model(export: Callable[[Path], None], folder: Path) -> None:
    """Let `export` write a plain Hugging Face folder; an earlier one is replaced."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        export(part)
    except Exception as error:
        free = shutil.disk_usage(folder.parent).free
        shutil.rmtree(part, ignore_errors=True)
        if problem := disk_problem(error, free):
            raise RunError(
                f"the model could not be written to {folder}: {problem}. Free some space, then "
                "continue with --resume"
            ) from error
        raise
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
