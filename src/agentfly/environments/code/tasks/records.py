"""Records of JSON lines, plain or packed by gzip; a broken one is named by file and line."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agentfly.errors import ConfigError, FormatError

Record = TypeVar("Record", bound=BaseModel)


def read_records(path: Path, kind: type[Record]) -> Iterator[tuple[str, Record]]:
    """Read a file record by record, each with where it stands: "tasks.jsonl:3"."""
    for number, line in enumerate(_lines(path), start=1):
        where = f"{path}:{number}"
        if line.strip():
            yield where, _record(line, kind, where)


def _lines(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} to read tasks from")
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            yield from file
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{path} is not {_expected(path)}: {error}") from error


def _expected(path: Path) -> str:
    return "UTF-8 text packed by gzip" if path.suffix == ".gz" else "UTF-8 text"


def _record(line: str, kind: type[Record], where: str) -> Record:
    try:
        return kind.model_validate(json.loads(line))
    except json.JSONDecodeError as error:
        raise FormatError(f"{where} is not JSON: {error.msg}") from error
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "the line"
        known = ", ".join(field.alias or name for name, field in kind.model_fields.items())
        raise FormatError(
            f"{where}: {place}: {wrong['msg']}. Expected an object with the fields {known}"
        ) from error
