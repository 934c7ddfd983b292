"""The manifest of a checkpoint: a list of its files by which damage is found.

    {"v": 2, "kind": "checkpoint", "step": 50, "score": 0.61,
     "files": {"model.safetensors": {"size": 4334032, "sha256": "db33…"}, …},
     "sha256": "77a0…"}                 of all the rest, keys sorted, without blanks

It is written last. Manifests of version 1 have no checksum of their own.
"""

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

MANIFEST = "manifest.json"
FORMAT_VERSION = 2
"""Raised whenever the manifest changes its meaning."""
HASHED_BYTES = 16_000_000
"""Files up to this size are hashed; larger ones have a CRC-32, which is several times faster to
compute. It finds any accidental damage, but not a forged file."""
READ_AT_ONCE = 1_000_000


class DamagedError(Exception):
    """The reason why a folder is no whole checkpoint; handled where checkpoints are looked for."""


class _OnDisk(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class FileEntry(_OnDisk):
    """The size and checksum of one file."""

    size: Annotated[int, Field(ge=0)]
    sha256: str | None = None
    crc32: int | None = None


class Manifest(_OnDisk):
    """The contents of a checkpoint's folder."""

    v: Literal[1, 2]
    kind: Literal["checkpoint"]
    step: Annotated[int, Field(ge=0)]
    score: float | None
    files: dict[str, FileEntry]
    """By path within the folder: {"model/config.json": {"size": 731, "sha256": "9f…"}}."""
    sha256: str | None = None
    """Checksum of the rest of the manifest; None in version 1."""

    @field_validator("files")
    @classmethod
    def _inside_the_folder(cls, files: dict[str, FileEntry]) -> dict[str, FileEntry]:
        for name in files:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ValueError(f"{name!r} is not inside the folder")
        return files


def write_manifest(folder: Path, *, step: int, score: float | None) -> list[Path]:
    """Write the manifest of a filled folder; return all files, the manifest last."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    listed = {path.relative_to(folder).as_posix(): _entry(path) for path in files}
    about = {"v": FORMAT_VERSION, "kind": "checkpoint", "step": step, "score": score}
    rest = {**about, "files": listed}
    path = folder / MANIFEST
    path.write_text(json.dumps({**rest, "sha256": _digest(rest)}, indent=1) + "\n")
    return [*files, path]


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of `step_N`, which must be of that step; the files are not looked at.

    Raises:
        DamagedError: It is missing, changed, or of another step or version.
    """
    try:
        found = json.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise DamagedError(f"it has no {MANIFEST}, so it was not written to its end") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from error
    if isinstance(found, dict) and isinstance(found.get("v"), int) and found["v"] > FORMAT_VERSION:
        version = found["v"]
        raise DamagedError(f"its format is {version}, and this AgentFly reads {FORMAT_VERSION}")
    try:
        manifest = Manifest.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _unreadable(f"{where}: {first['msg']}") from error
    _require_unchanged(manifest, found, folder.name)
    return manifest


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with the manifest, or raise DamagedError."""
    for name, entry in manifest.files.items():
        try:
            _verify(folder / name, name, entry)
        except OSError as error:
            raise DamagedError(f"{name} can't be read ({error})") from error


def _verify(path: Path, name: str, entry: FileEntry) -> None:
    if not path.is_file():
        raise DamagedError(f"{name} is missing")
    size = path.stat().st_size
    if size != entry.size:
        raise DamagedError(f"{name} has {size} bytes instead of {entry.size}")
    for title, expected, checksum in _checksums(entry):
        if expected is not None and checksum(path) != expected:
            raise DamagedError(f"{name} is not what was written: its {title} differs")


def _require_unchanged(manifest: Manifest, found: dict[str, Any], folder: str) -> None:
    rest = {key: value for key, value in found.items() if key != "sha256"}
    if (manifest.v > 1 or manifest.sha256 is not None) and manifest.sha256 != _digest(rest):
        raise DamagedError(f"its {MANIFEST} is not what was written: its SHA-256 differs")
    if manifest.v == 1 and not manifest.files:
        raise DamagedError(f"its {MANIFEST} lists no files")
    if folder != f"step_{manifest.step}":
        raise DamagedError(f"its {MANIFEST} is of step {manifest.step}")


def _unreadable(reason: str) -> DamagedError:
    return DamagedError(f"its {MANIFEST} can't be read ({reason})")


def _digest(rest: dict[str, Any]) -> str:
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size <= HASHED_BYTES:
        return {"size": size, "sha256": _sha256(path)}
    return {"size": size, "crc32": _crc32(path)}


def _checksums(entry: FileEntry) -> list[tuple[str, object, Callable[[Path], object]]]:
    return [("SHA-256", entry.sha256, _sha256), ("CRC-32", entry.crc32, _crc32)]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _crc32(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            checksum = zlib.crc32(block, checksum)
    return checksum
