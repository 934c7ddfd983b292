"""Folders that are complete or absent, even if the process that writes them is killed.

wiki/                  complete: it has a manifest
    manifest.json
.wiki.half-x3k/        being written; left behind only by a killed process
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError, FormatError

MANIFEST = "manifest.json"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, renamed to `folder` at the end, or removed after an error."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already: remove it, or choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=f".{folder.name}.half-", dir=folder.parent))
    try:
        yield half
        half.chmod(0o755)  # mkdtemp gives access to the owner only
        for path in sorted(half.rglob("*")):
            _sync(path)
        _rename(half, folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _rename(half: Path, folder: Path) -> None:
    """Rename the folder, unless another process has made the same one in the meantime."""
    try:
        half.rename(folder)
    except OSError:
        if not (folder / MANIFEST).is_file():
            raise


def write_manifest(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the folder's manifest."""
    (folder / MANIFEST).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path, kind: str) -> dict[str, Any]:
    """Return the manifest of a folder, which must be of this kind."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ConfigError(
            f"{folder} holds no {kind}: make one with `agentfly search index FILES --to FOLDER`"
        )
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path} is damaged ({error}): make the {kind} again") from error
    if not isinstance(facts, dict) or facts.get("kind") != kind:
        raise FormatError(f"{path} should describe a {kind}, but says {facts!r:.200}")
    return facts


def _sync(path: Path) -> None:
    if path.is_file():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
