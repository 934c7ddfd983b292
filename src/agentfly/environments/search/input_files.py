"""Input files: text and JSON, compressed or not; errors name the file and the line."""

import bz2
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from agentfly.errors import ConfigError, FormatError

_COMPRESSED = (".gz", ".bz2")


def document_suffix(path: Path) -> str:
    """Return the suffix of a file without .gz or .bz2.

    >>> document_suffix(Path("dev-v2.0.JSON.gz"))
    '.json'
    """
    inner = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return inner.suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read, decompressing .gz and .bz2; FormatError if that fails."""
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
    """Return the line of the first bytes that are not UTF-8; decoders don't report lines."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    raise AssertionError(f"{path} was not UTF-8 a moment ago")


def read_json(path: Path) -> Any:
    """Return the value of a JSON file."""
    with open_text(path) as file:
        text = file.read()
    try:
        return _parsed(text, str(path))
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}:{error.lineno} is not JSON: {error.msg}") from error


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `file:line` and object of each line of JSON; empty lines are skipped."""
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = _parsed(line, f"{path}:{number}")
            except json.JSONDecodeError as error:
                raise FormatError(f"{path}:{number} is not JSON: {error.msg}") from error
            if not isinstance(row, dict):
                raise FormatError(f"{path}:{number} should hold an object, got {row!r:.80}")
            yield f"{path}:{number}", row


def _parsed(text: str, where: str) -> Any:
    """Parse JSON; FormatError if it is nested too deeply or a number is too long."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise FormatError(f"{where} can't be read: it is nested too deeply") from error
    except ValueError as error:
        raise FormatError(f"{where} can't be read: {error}") from error
