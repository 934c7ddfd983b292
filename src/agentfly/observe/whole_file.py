"""Atomic writing of files: complete, or unchanged."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from agentfly.runtime.journal import sync_folder

PART = ".part"
"""Suffix of a file that is being written."""


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` once it is on the disk.

    with whole_file(Path("runs/demo/config.toml")) as file:
        file.write(toml.encode())
    """
    part = path.with_name(path.name + PART)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
