"""A disk that is full, told in a person's words whatever was being written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentfly.errors import CallbackError, RunError
from agentfly.training.checkpoint import is_full_disk


@contextmanager
def full_disk_told(folder: Path) -> Iterator[None]:
    """End a run whose files don't fit on its disk any more, and say how to go on.

    Chains and events are written by callbacks, whose errors come as those of a callback.
    """
    try:
        yield
    except (OSError, CallbackError) as error:
        if not is_full_disk(error):
            raise
        raise RunError(
            f"the disk of {folder} is full. Free some space, then continue with --resume"
        ) from error
