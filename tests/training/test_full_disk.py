"""A disk that is full before a run has begun."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.training.small_trainer import one_source, settings, train

from agentfly.errors import ConfigError, RunError
from agentfly.training.disk import report_disk_errors

DISK_BYTES = 128 * 1024
PAGE = 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of its own, of a size that can be filled."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this container mounts no disks")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, *, pages_left: int) -> Path:
    """Leave so many pages of a disk."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
    ballast.write_bytes(b"\0" * (free - pages_left * PAGE))
    return ballast


@pytest.mark.parametrize("pages_left", [0, 2, 4, 7])
def test_a_full_disk_at_the_beginning_says_what_then_works(
    small_disk: Path, pages_left: int
) -> None:
    """With more pages left, another file is the first that does not fit."""
    chosen = settings(small_disk / "runs", train={"steps": 1}, eval={"every": 0, "at_start": False})
    ballast = fill(small_disk, pages_left=pages_left)
    with pytest.raises(RunError, match=r"full\. Free some space, then") as caught:
        train(one_source(), chosen=chosen)
    begun = (small_disk / "runs" / "small" / "run.json").exists()
    assert ("--resume" if begun else "start it again") in str(caught.value)
    ballast.unlink()
    with pytest.raises(RunError, match="checkpoint of step 1 could not be written"):
        train(one_source(), chosen=chosen, resume=begun)


def test_a_full_disk_at_the_opening_of_a_resumed_run_leaves_it_as_it_was(
    small_disk: Path, tmp_path: Path
) -> None:
    elsewhere = settings(tmp_path / "runs", train={"steps": 1}, eval={"every": 0})
    folder = train(one_source(), chosen=elsewhere).folder
    small_disk.joinpath("runs").mkdir()
    there = small_disk / "runs" / folder.name
    there.mkdir()
    for name in ("run.json", "config.toml", "ledger.jsonl", "metrics.jsonl", "lock"):
        (there / name).write_bytes((folder / name).read_bytes())
    (there / "checkpoints").symlink_to(folder / "checkpoints")
    before = {path.name: path.read_bytes() for path in there.iterdir() if path.is_file()}
    fill(small_disk, pages_left=0)
    again = settings(small_disk / "runs", train={"steps": 2}, eval={"every": 0})
    with pytest.raises(RunError, match=r"is full\. Free some space, then continue with --resume"):
        train(one_source(), chosen=again, resume=True)
    after = {path.name: path.read_bytes() for path in there.iterdir() if path.is_file()}
    assert {name: after.get(name) for name in before if name != "lock"} == {
        name: content for name, content in before.items() if name != "lock"
    }


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_behind_another_error_is_reported(tmp_path: Path, number: int) -> None:
    def open_a_tracker() -> None:
        try:
            raise OSError(number, "no room")
        except OSError as error:
            raise ConfigError("opening the tracker 'tensorboard' raised OSError") from error

    full = pytest.raises(RunError, match=r"is full\. Free some space, then start it again")
    with full, report_disk_errors(tmp_path):
        open_a_tracker()


def test_files_of_others_fail_under_their_own_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), report_disk_errors(tmp_path / "run"):
        (tmp_path / "notes.txt").read_text()
    told = pytest.raises(RunError, match=r"notes\.txt can't be read or written: No such file")
    with told, report_disk_errors(tmp_path):
        (tmp_path / "notes.txt").read_text()
