"""A TOML file, and all that may be wrong with it before its keys are looked at."""

import tomllib
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.names import suggestion


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file into tables."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {str(path)!r}. {_others(path)}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{str(path)!r} is a folder. {_others(path / '*')}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FormatError(f"{path} is not UTF-8 text in line {line}. Save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{str(path)!r} can't be read: {error.strerror}") from error
    return parse_toml(text, str(path))


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Parse a text into tables; `file` is what to call it."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{file} is not TOML: {error}") from error


def _others(path: Path) -> str:
    """Say which settings there are in the folder instead."""
    files = [file.name for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    return suggestion(path.name, files).replace("Known", f"TOML files in {str(path.parent)!r}")
