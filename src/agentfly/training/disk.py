"""Report trouble with the disk of a run as a RunError that says how to go on."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentfly.errors import AgentFlyError, RunError
from agentfly.observe.run_folder import MARK

NEARLY_FULL = 1_000_000
"""With fewer bytes left, a library's failure to write is put down to the disk."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def report_disk_errors(folder: Path) -> Iterator[None]:
    """End a run whose own files can't be read or written, and say which and what to do.

    A full disk may also come as an error of ours: chains and events are written by callbacks, and
    trackers are opened inside a boundary.
    """
    try:
        yield
    except (OSError, AgentFlyError) as error:
        if isinstance(error, RunError):
            raise
        if is_full_disk(error):
            raise RunError(
                f"the disk of {folder} is full. Free some space, {_then(folder)}"
            ) from error
        if isinstance(error, OSError) and (path := _inside(error, folder)):
            raise RunError(
                f"{path} can't be read or written: {error.strerror or error}. Correct that or "
                f"restore the file, {_then(folder)}"
            ) from error
        raise


def is_full_disk(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is a full disk."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    return error is not None and is_full_disk(error.__cause__)


def disk_problem(error: BaseException, free: int) -> str | None:
    """Say why nothing more could be written, if the disk is to blame.

    Libraries have their own ways to say it, some of them no OSError: that the disk is full is
    then seen by the space that was left before the half-written folder went.
    """
    if is_full_disk(error) or (isinstance(error, Exception) and free < NEARLY_FULL):
        return "the disk is full"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    return None


def _then(folder: Path) -> str:
    """Name the way to go on: a run that has not begun leaves nothing to resume."""
    return "then continue with --resume" if (folder / MARK).is_file() else "then start it again"


def _inside(error: OSError, folder: Path) -> Path | None:
    """Return the file that an error is about, if it is one of the run's own."""
    if not isinstance(error.filename, str):
        return None
    path = Path(error.filename)
    return path if path.absolute().is_relative_to(folder.absolute()) else None
