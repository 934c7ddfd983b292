"""Opening files, compressed or not."""

import bz2
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from agentfly.errors import ConfigError, FormatError

_COMPRESSED = (".gz", ".bz2")


def kind_of(path: Path) -> str:
    """Return the suffix that says what is inside.

    >>> kind_of(Path("dev-v2.0.JSON.gz"))
    '.json'
    """
    inner = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return inner.suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read, unpacking .gz and .bz2; what can't be unpacked is a FormatError."""
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    try:
        with _unpacked(path) as file:
            yield file
    except (EOFError, OSError) as error:
        raise FormatError(f"{path} can't be read: {error}") from error


def _unpacked(path: Path) -> IO[bytes]:
    match path.suffix.lower():
        case ".gz":
            return cast("IO[bytes]", gzip.open(path))
        case ".bz2":
            return cast("IO[bytes]", bz2.open(path))
    return path.open("rb")


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Open a file as UTF-8 text."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise FormatError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8") from error
