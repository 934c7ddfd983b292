"""Files of the scratch folder, as the sandbox itself sees them: no path leads outside."""

import base64
import os
from pathlib import Path

LARGEST_READ = 16 << 20
"""Bytes of a file that can be fetched in one go."""
MOST_LISTED = 1000
LARGEST_LIST = 1 << 18
"""Bytes of all names of a list together."""


def read(path: str) -> bytes:
    """Return a file's bytes."""
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_READ + 1)
    if len(data) > LARGEST_READ:
        size = Path(path).stat().st_size
        raise OSError(f"{path} has {size} bytes; at most {LARGEST_READ} can be read")
    return data


def write(path: str, data: str) -> None:
    """Write a file from base64, and make its folders."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(data))


def names(path: str) -> bytes:
    """Return the files below a folder, by their paths from there, sorted, with NULs between."""
    folder = Path(path)
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    found = (str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    listed = sorted(found)[:MOST_LISTED]
    while len(joined := b"\0".join(map(os.fsencode, listed))) > LARGEST_LIST:
        listed = listed[: len(listed) // 2]
    return joined
