"""Opening files, compressed or not."""

import bz2
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from agentfly.errors import ConfigError, FormatError

_COMPRESSED = (".gz", ".bz2")


def document_suffix(path: Path) -> str:
    """Return the suffix that says what is inside.

    >>> document_suffix(Path("dev-v2.0.JSON.gz"))
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
    except (EOFError, OSError, zlib.error) as error:
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
            line = _first_line_not_utf8(path)
            raise FormatError(
                f"{path}:{line} is not UTF-8 text: {error.reason}. Save it as UTF-8"
            ) from error


def _first_line_not_utf8(path: Path) -> int:
    """Read the file once more: whoever decodes by the block does not know lines."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    raise AssertionError(f"{path} was not UTF-8 a moment ago")
