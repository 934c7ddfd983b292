"""The folder where fetched models are kept: whole or not at all, verified, safe for many processes.

    $AGENTFLY_CACHE/models/                  or $XDG_CACHE_HOME/agentfly/models, or ~/.cache/...
        smollm2-135m-instruct/               a Hugging Face folder
            agentfly.json                    its files' sizes and SHA-256
        .smollm2-135m-instruct.lock
        .smollm2-135m-instruct.half-x3k/     being made; left behind only by a killed process

A folder is made next to its place under a lock, synced to disk, and renamed. The holder of the lock
may remove every half-made folder of that name: no other process can be working on it.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentfly.errors import ConfigError

Progress = Callable[[str, float], None]
"""Called with what is being done, and how much of all the work is done, from 0 to 1."""

Build = Callable[[Path, Progress], None]
"""Fills an empty folder with a model."""

MANIFEST = "agentfly.json"

LOCK_SECONDS = 2 * 3600.0
"""Longest wait for another process, which may be pre-training the same model."""

_WAY_OUT = "set AGENTFLY_CACHE to a folder on another disk"

_FULL = (errno.ENOSPC, errno.EDQUOT)

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)

_NEARLY_FULL = 1_000_000

_log = logging.getLogger(__name__)


def quiet(stage: str, done: float) -> None:
    """Show no progress."""


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Show a bar on standard error while the body runs.

    ```python
    with progress_bar("smollm2-135m-instruct") as progress:
        fetch("smollm2-135m-instruct", progress=progress)
    ```
    """
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[stage]}"),
    )
    with Bar(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task(title, total=1.0, stage="")
        yield lambda stage, done: bar.update(task, completed=done, stage=stage)


def cache_folder() -> Path:
    """Return where fetched models are kept; nothing is created."""
    if chosen := os.environ.get("AGENTFLY_CACHE"):
        return Path(chosen).expanduser().absolute() / "models"
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser().absolute() / "agentfly" / "models"


def present(name: str) -> Path | None:
    """Return a model's folder if it is there, without reading its files."""
    folder = cache_folder() / name
    return folder if (folder / MANIFEST).is_file() else None


def cached(name: str) -> Path | None:
    """Return a model's folder if it is there and every file is as it was written."""
    folder = cache_folder() / name
    return folder if _intact(folder) else None


def make(name: str, build: Build, *, needs: int, progress: Progress) -> Path:
    """Return a model's folder; if it is missing or damaged, build it first.

    Args:
        name: The model, and its folder in the cache.
        build: Fills an empty folder.
        needs: Bytes on disk while building.
        progress: Passed to `build`, and called for a wait for another process.
    """
    folder = cache_folder() / name
    with _disk_errors(folder.parent, needs):
        _make_parent(folder)
        with _locked(name, progress):
            if not _intact(folder):
                _replace(folder, lambda half: build(half, progress), needs)
    return folder


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_parent(folder: Path) -> None:
    """Make the cache itself; it can fail in more ways than what is done inside it afterwards."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in _FULL:
            raise
        raise ConfigError(_unwritable(folder.parent, error)) from error


def _replace(folder: Path, build: Callable[[Path], None], needs: int) -> None:
    for left in folder.parent.glob(f".{folder.name}.half-*"):
        shutil.rmtree(left)
    if folder.exists():
        _log.warning("%s is damaged: it is made again", folder)
    _check_space(folder.parent, needs)
    half = Path(tempfile.mkdtemp(prefix=f".{folder.name}.half-", dir=folder.parent))
    try:
        _fill(half, build)
        if folder.exists():
            shutil.rmtree(folder)
        half.rename(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _fill(half: Path, build: Callable[[Path], None]) -> None:
    try:
        build(half)
        _seal(half)
    except Exception:
        # Libraries and child processes have their own ways to say that nothing more could be
        # written; that the disk is full can only be seen now, before the half-made folder goes.
        _check_space(half.parent, _NEARLY_FULL)
        raise


def _seal(folder: Path) -> None:
    """Write the manifest, and sync everything to disk before the rename."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    listed = {path.name: {"size": path.stat().st_size, "sha256": sha256(path)} for path in files}
    (folder / MANIFEST).write_text(json.dumps({"version": 1, "files": listed}, indent=1) + "\n")
    for path in (*files, folder / MANIFEST, folder):
        path.chmod(0o755 if path.is_dir() else 0o644)  # some libraries write for the owner only
        _sync(path)


def _intact(folder: Path) -> bool:
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
        return bool(files) and all(
            (folder / name).stat().st_size == entry["size"]
            and sha256(folder / name) == entry["sha256"]
            for name, entry in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows can't open a folder to sync it.
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(name: str, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    path = cache_folder() / f".{name}.lock"
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress("waiting for another process that is making it", 0.0)
        try:
            lock.acquire(timeout=LOCK_SECONDS)
        except Timeout as error:
            raise ConfigError(
                f"another process has been making {name!r} for {LOCK_SECONDS / 3600:g} hours and "
                f"still holds {path}: end that process, then try again"
            ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _disk_errors(folder: Path, needs: int) -> Iterator[None]:
    """Raise ConfigError with the way out for a cache folder that can't be written."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ConfigError(
                f"the disk is full: {needs / 1e6:.0f} MB are needed in {folder}. "
                f"Free some space, or {_WAY_OUT}"
            ) from error
        if error.errno in _FORBIDDEN:
            raise ConfigError(_unwritable(folder, error)) from error
        raise


def _unwritable(folder: Path, error: OSError) -> str:
    return f"the cache {folder} can't be written: {error}. Fix its permissions, or {_WAY_OUT}"


def _check_space(folder: Path, needs: int) -> None:
    if shutil.disk_usage(folder).free < needs:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
