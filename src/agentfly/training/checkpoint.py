"""Checkpoints: numbered folders of which each is whole or absent, whatever kills the run.

    checkpoints/
        step_10/                 the best by held-out reward
        step_40/
        step_50/                 the newest
            manifest.json        every file's size and checksum, written last
            model/, …            whatever the trainer put there
        step_60.part/            being written; left behind only by a killed process

A folder is filled under another name, synced to the disk, sealed by its manifest, and renamed. The
one moment in which a step has no folder under its own name is when a checkpoint of the same step is
replaced: the old one then waits as `step_N.old`, and is put back if the run was killed there.
"""

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError, RunError
from agentfly.runtime.journal import sync_folder

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
"""Raised whenever the manifest changes its meaning."""
HASHED_BYTES = 16_000_000
"""Files up to this size are hashed; larger ones have a CRC-32, which is several times faster to
compute and tells of any damage as surely, though not of malice."""
READ_AT_ONCE = 1_000_000

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
            _fill(part, write, {"step": step, "score": score})
        except BaseException as error:
            free = shutil.disk_usage(self._folder).free
            shutil.rmtree(part, ignore_errors=True)
            if problem := _disk_problem(error, free):
                raise RunError(self._not_saved(step, problem)) from error
            raise
        self._put_in_place(part, self._path(step))
        self._prune()
        return Checkpoint(path=self._path(step), step=step, score=score)

    def latest(self) -> Checkpoint | None:
        """Return the newest whole checkpoint; what is damaged is skipped with a warning."""
        return next(self._whole(), None)

    def best(self) -> Checkpoint | None:
        """Return the whole checkpoint with the highest score, the newer one of equals."""
        scored = [found for found in self._whole() if found.score is not None]
        return max(scored, key=_rank, default=None)

    def _whole(self) -> Iterator[Checkpoint]:
        """Yield checkpoints newest first, each verified against its manifest."""
        self._put_back()
        for step in self._steps():
            try:
                yield _verified(self._path(step))
            except _Damaged as problem:
                _log.warning("%s is ignored: %s", self._path(step), problem)

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
        found = [read for step in self._steps() if (read := _readable(self._path(step)))]
        scored = [checkpoint for checkpoint in found if checkpoint.score is not None]
        kept = {checkpoint.step for checkpoint in found[: self._keep]}
        kept |= {best.step for best in [max(scored, key=_rank, default=None)] if best}
        for checkpoint in found:
            if checkpoint.step not in kept:
                # Renamed first: a kill in the middle of removing leaves no half of a checkpoint.
                gone = checkpoint.path.rename(checkpoint.path.with_suffix(GONE))
                shutil.rmtree(gone, ignore_errors=True)

    def _not_saved(self, step: int, problem: str) -> str:
        last = self.latest()
        kept = f"the last good one is {last.path}" if last else "there is no earlier one"
        return (
            f"the checkpoint of step {step} could not be written to {self._folder}: {problem}; "
            f"{kept}. Free some space, then continue with --resume"
        )


class _Damaged(Exception):  # noqa: N818 - a verdict, not an error: it never leaves this module
    """Why a folder is no whole checkpoint."""


def _rank(checkpoint: Checkpoint) -> tuple[float, int]:
    assert checkpoint.score is not None
    return checkpoint.score, checkpoint.step


def _fill(part: Path, write: Write, about: dict[str, Any]) -> None:
    part.mkdir()
    write(part)
    files = sorted(path for path in part.rglob("*") if path.is_file())
    listed = {path.relative_to(part).as_posix(): _entry(path) for path in files}
    manifest = {"v": FORMAT_VERSION, "kind": "checkpoint", **about, "files": listed}
    (part / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    for path in (*files, part / MANIFEST):
        _sync_file(path)
    for folder in (*(path for path in part.rglob("*") if path.is_dir()), part):
        sync_folder(folder)


def _entry(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size <= HASHED_BYTES:
        return {"size": size, "sha256": _sha256(path)}
    return {"size": size, "crc32": _crc32(path)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _crc32(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            checksum = zlib.crc32(block, checksum)
    return checksum


_CHECKSUMS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "sha256": ("SHA-256", _sha256),
    "crc32": ("CRC-32", _crc32),
}
"""What a manifest may say of a file beside its size."""


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    step: int
    score: float | None
    files: dict[str, dict[str, Any]]
    """By path within the folder: {"model/config.json": {"size": 731, "sha256": "9f…"}}."""


def _readable(path: Path) -> Checkpoint | None:
    try:
        return _checkpoint(path, _manifest(path))
    except _Damaged:
        return None


def _verified(path: Path) -> Checkpoint:
    manifest = _manifest(path)
    for name, entry in manifest.files.items():
        _verify(path / name, name, entry)
    return _checkpoint(path, manifest)


def _checkpoint(path: Path, manifest: _Manifest) -> Checkpoint:
    return Checkpoint(path=path, step=manifest.step, score=manifest.score)


def _manifest(path: Path) -> _Manifest:
    try:
        read = json.loads((path / MANIFEST).read_text())
        version = read["v"]
        manifest = _Manifest(step=read["step"], score=read["score"], files=read["files"])
    except FileNotFoundError:
        raise _Damaged(f"it has no {MANIFEST}, so it was not written to its end") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _Damaged(f"its {MANIFEST} can't be read ({type(error).__name__}: {error})") from error
    if version != FORMAT_VERSION:
        raise _Damaged(f"its format is {version}, and this AgentFly reads {FORMAT_VERSION}")
    return manifest


def _verify(path: Path, name: str, entry: dict[str, Any]) -> None:
    if not path.is_file():
        raise _Damaged(f"{name} is missing")
    size = path.stat().st_size
    if size != entry["size"]:
        raise _Damaged(f"{name} has {size} bytes instead of {entry['size']}")
    for key, (title, checksum) in _CHECKSUMS.items():
        if entry.get(key) is not None and checksum(path) != entry[key]:
            raise _Damaged(f"{name} is not what was written: its {title} differs")


def is_full_disk(error: BaseException | None) -> bool:
    """Tell whether an error, or one that it comes from, is that nothing more fits on the disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return error is not None and is_full_disk(error.__cause__)


def _disk_problem(error: BaseException, free: int) -> str | None:
    """Say in a person's words why nothing more could be written, if the disk is to blame.

    Libraries have their own ways to say it, some of them no OSError: that the disk is full is
    then seen by the space that was left before the half-written folder went.
    """
    if is_full_disk(error) or (isinstance(error, Exception) and free < _NEARLY_FULL):
        return "the disk is full"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    return None


_NEARLY_FULL = 1_000_000
