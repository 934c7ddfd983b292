"""The record, outside any process, of every child process and of whose it is.

One small file per child, in a folder of the user, outlives the owner:

    ~/.local/state/agentfly/processes/<machine>/<owner pid>-<owner start>-<token>
        {"v": 2, "name": "python sandbox", "deadline": 1767225600.0,"crc":"52…"}    ← by the owner
        4711 889123                                              ← by the child: pid, start

The owner writes the first line before it starts anything, and the child adds the second before it
becomes the command. So whatever runs is on record, and a record of one line is of nothing that
runs. Every process below a child carries the token in its environment (Linux shows it in /proc),
so that grandchildren are known even after the child itself has died. The name of a file alone says
whose child it is: a record with damaged contents still ends with its owner.
"""

import json
import logging
import math
import os
import platform
import re
import secrets
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentfly.errors import ConfigError
from agentfly.runtime.launch import start_time
from agentfly.runtime.line_checksum import add_checksum, has_valid_checksum

FOLDER_VARIABLE = "AGENTFLY_PROCESSES"
"""Where the records are, if not in the user's state folder."""
TOKEN_VARIABLE = "AGENTFLY_CHILD"
"""Names, in the environment of a child and of all below it, the record that they belong to."""
UNKNOWN = "unknown"
"""The name of a child whose record does not say it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One process, once and for all: a pid may be given to another, but not with the same start."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """Look a living process up; None if there is none."""
        start = start_time(pid)
        return None if start is None else cls(pid=pid, start=start)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return Identity.of(self.pid) == self


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One file of the registry."""

    path: Path
    owner: Identity
    token: str
    name: str
    deadline: float
    """End of the child's lifetime, in seconds since 1970."""
    child: Identity | None
    """None until the child has registered itself."""

    def remove(self) -> None:
        """Delete the file, if it is still there."""
        self.path.unlink(missing_ok=True)


def intend(*, name: str, lifetime: float) -> Record:
    """Put on record that this process is about to start a child."""
    owner = Identity.of(os.getpid())
    assert owner is not None, "this process runs"
    token, deadline = secrets.token_hex(8), time.time() + lifetime
    intent = json.dumps({"v": 2, "name": name, "deadline": deadline}).encode()
    try:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{owner.pid}-{owner.start}-{token}"
        path.write_bytes(add_checksum(intent) + b"\n")
    except OSError as error:
        raise ConfigError(
            f"child processes must be put on record, but that failed: {error}. "
            f"Set {FOLDER_VARIABLE} to a folder that can be written"
        ) from error
    return Record(path=path, owner=owner, token=token, name=name, deadline=deadline, child=None)


def records() -> list[Record]:
    """Read all records of this machine; some may be gone by the time they are looked at."""
    paths = sorted(path for path in _folder().glob("*") if _NAME.fullmatch(path.name))
    return [record for path in paths if (record := _read(path))]


_NAME = re.compile(r"\d+-\d+-[0-9a-f]+")
_CHILD = re.compile(rb"(\d{1,20}) (\d{1,20})\n")


def _folder() -> Path:
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen) / _machine()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "agentfly" / "processes" / _machine()


@cache
def _machine() -> str:
    """Name what pids are valid in: a boot of one machine, and on Linux one pid namespace of it.

    Home folders are shared between machines and containers; pids are not.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return platform.node() or "unknown"


def _read(path: Path) -> Record | None:
    pid, start, token = path.name.split("-")
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("%s is no record of a process, and is left alone: %s", path, error)
        return None
    # A line that a crash cut short says nothing: no child is started before the first is whole,
    # and no command runs before the second is.
    whole = [line for line in lines if line.endswith(b"\n")]
    name, deadline = _intent(whole[0], path) if whole else (UNKNOWN, 0.0)
    return Record(
        path=path,
        owner=Identity(pid=int(pid), start=int(start)),
        token=token,
        name=name,
        deadline=deadline,
        child=_child(whole[1], path) if len(whole) > 1 else None,
    )


def _intent(line: bytes, path: Path) -> tuple[str, float]:
    """Read the name and the deadline; a damaged line gives the child no end but its owner's."""
    try:
        intent = json.loads(line)
    except (ValueError, RecursionError):
        intent = None
    match intent:
        case {"v": 1, "name": str(name), "deadline": float(deadline)}:
            return name, deadline
        case {"v": 2, "name": str(name), "deadline": float(deadline)} if has_valid_checksum(line):
            return name, deadline
    _warn_damaged(path)
    return UNKNOWN, math.inf


def _child(line: bytes, path: Path) -> Identity | None:
    """Read pid and start of the child; without them it is known by its token alone."""
    if numbers := _CHILD.fullmatch(line):
        return Identity(pid=int(numbers[1]), start=int(numbers[2]))
    _warn_damaged(path)
    return None


def _warn_damaged(path: Path) -> None:
    _log.warning(
        "the record of a child process, %s, is damaged: it is kept until its owner has ended", path
    )
