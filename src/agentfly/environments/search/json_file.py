"""JSON and JSON lines, with the line of whatever can't be read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentfly.environments.search.opening import open_text
from agentfly.errors import FormatError


def read_json(path: Path) -> Any:
    """Return what a file holds."""
    with open_text(path) as file:
        try:
            return json.load(file)
        except json.JSONDecodeError as error:
            raise FormatError(f"{path}:{error.lineno} is not JSON: {error.msg}") from error


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line's place and object; empty lines are skipped."""
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise FormatError(f"{path}:{number} is not JSON: {error.msg}") from error
            if not isinstance(row, dict):
                raise FormatError(f"{path}:{number} should hold an object, got {row!r:.80}")
            yield f"{path}:{number}", row
