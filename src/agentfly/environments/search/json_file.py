"""JSON and JSON lines, with the line of whatever can't be read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentfly.environments.search.input_files import open_text
from agentfly.errors import FormatError


def read_json(path: Path) -> Any:
    """Return what a file holds."""
    with open_text(path) as file:
        text = file.read()
    try:
        return _parsed(text, str(path))
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}:{error.lineno} is not JSON: {error.msg}") from error


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line's place and object; empty lines are skipped."""
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
    """Read what is JSON, unless it is deeper or has longer numbers than Python takes."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise FormatError(f"{where} can't be read: it is nested too deeply") from error
    except ValueError as error:
        raise FormatError(f"{where} can't be read: {error}") from error
