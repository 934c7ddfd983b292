"""Ask before a settings file runs code that came with it.

A TOML file is data, but it names functions by `module:name`, and such a module is looked up first
in the file's folder. A `--dry-run` of a downloaded folder must not run code by surprise.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agentfly.config import RunSettings, is_import_path
from agentfly.config.import_path import folder_with
from agentfly.config.settings_file import is_toml_file
from agentfly.config.sft_settings import SftSettings
from agentfly.errors import ConfigError

Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the code that the file names and that is in its folder, without asking.",
    ),
]
_REMOTE_CODE = "model.trust_remote_code"


def require_trust(
    settings: RunSettings | SftSettings,
    file: Path,
    *,
    overrides: Sequence[str] = (),
    base: Path | None = None,
    trust: bool,
) -> None:
    """Ask before running code that came with a file from another folder; refuse in a pipe.

    Code in the working directory, and what was given on the command line, is the user's own.

    Args:
        settings: Settings that name code.
        file: Their file, for the question.
        overrides: What was given on the command line.
        base: Folder in which modules are searched, if it is not the file's own.
        trust: Do not ask.
    """
    folder, here = (base or file.parent).resolve(), Path().resolve()
    further = [Path(text) for text in overrides if is_toml_file(text)]
    if trust or {folder, *(path.parent.resolve() for path in further)} == {here}:
        return
    found = list(_code_of(settings, folder if folder != here else None, overrides))
    if not found:
        return
    listed = "".join(f"\n  {line}" for line in found)
    names = " + ".join(str(path) for path in (file, *further))
    warning = f"{names} runs code that came with it, with your rights:{listed}"
    if not sys.stdin.isatty():
        raise ConfigError(
            f"{warning}\nRead that code, then give --trust, or call this from the folder {folder}"
        )
    if not typer.confirm(f"{warning}\nRun it?", default=False, err=True):
        raise ConfigError("nothing was run, because you did not agree")


def _code_of(
    settings: RunSettings | SftSettings, folder: Path | None, overrides: Sequence[str]
) -> Iterator[str]:
    """Yield one line for each setting that runs code of a folder or of a server's program."""
    given = any(override.partition("=")[0].strip() == _REMOTE_CODE for override in overrides)
    if settings.model.trust_remote_code and not given:
        yield f"{_REMOTE_CODE}: the Python files of {settings.model.name}"
    yield from _programs_of(settings, overrides)
    for key, text in _texts(settings.model_dump(), ""):
        if folder and is_import_path(text) and folder_with(text, folder) == folder:
            yield f"{key}: {text}, a module in {folder}"


def _programs_of(settings: RunSettings | SftSettings, overrides: Sequence[str]) -> Iterator[str]:
    """Yield the settings that decide which program a server runs: all of them can load code."""
    if isinstance(settings, SftSettings):
        return
    given = {override.partition("=")[0].strip() for override in overrides}
    for name in ("python", "arguments", "variables"):
        value = getattr(settings.engine, name)
        if value and not any(key.startswith(f"engine.{name}") for key in given):
            yield f"engine.{name}: {value}, of a vLLM server that is started"


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield every text among some settings with its key: ("source.0.reward", "mine:correct")."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _texts(inner, f"{key}.{place}")
