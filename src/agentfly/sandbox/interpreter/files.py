"""Files of the scratch folder, as the sandbox itself sees them: no path leads outside."""

import base64
from pathlib import Path

LARGEST_READ = 16 << 20
"""Bytes of a file that can be fetched in one go."""
MOST_LISTED = 1000


def read(path: str) -> str:
    """Return a file's bytes as base64."""
    file = Path(path)
    if file.stat().st_size > LARGEST_READ:
        raise OSError(f"{path} has {file.stat().st_size} bytes; at most {LARGEST_READ} can be read")
    return base64.b64encode(file.read_bytes()).decode()


def write(path: str, data: str) -> None:
    """Write a file from base64, and make its folders."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(data))


def names(path: str) -> list[str]:
    """Return the files below a folder, by their paths from there, sorted."""
    folder = Path(path)
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    found = (str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    return sorted(found)[:MOST_LISTED]
