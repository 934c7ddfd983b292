"""JSON out of bytes: whatever is wrong with them, the error names the file and the line."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from agentfly.errors import FormatError


def read_json(raw: bytes, path: Path, first_line: int = 1) -> Any:
    """Read one value, which begins in this line of the file."""
    text = _decode(raw, path, first_line)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise not_json(path, first_line + error.lineno - 1, error.msg) from None
    except (ValueError, RecursionError) as error:
        raise unreadable_json(path, first_line, text, error) from None


def not_json(path: Path, line: int, problem: str) -> FormatError:
    """Make the error of a text that breaks the rules of JSON."""
    return FormatError(f"{path}:{line} is not JSON: {problem}")


def not_text(path: Path, line: int) -> FormatError:
    """Make the error of bytes that are no text."""
    return FormatError(f"{path}:{line} is not UTF-8 text: save the file in that encoding")


def unreadable_json(path: Path, first_line: int, text: str, error: Exception) -> FormatError:
    """Make the error of JSON that Python can't hold: too deep, or a number of too many digits.

    >>> unreadable_json(Path("a.json"), 7, "[" * 10_000, RecursionError("too deep"))
    FormatError('a.json:7 is not JSON that can be read: too deep')
    """
    digits = re.search(rf"\d{{{sys.get_int_max_str_digits() + 1}}}", text)
    line = first_line + text.count("\n", 0, digits.start() if digits else 0)
    return FormatError(f"{path}:{line} is not JSON that can be read: {error}")


def _decode(raw: bytes, path: Path, first_line: int) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_text(path, first_line + raw.count(b"\n", 0, error.start)) from None
