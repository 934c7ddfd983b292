"""The record, outside any process, of every child process and of whose it is.

One small file per child, in a folder of the user, outlives the owner:

    ~/.local/state/agentfly/processes/<machine>/<owner pid>-<owner start>-<token>
        {"v": 1, "name": "python sandbox", "deadline": 1767225600.0}    ← by the owner
        4711 889123                                                     ← by the child: pid, start

The owner writes the first line before it starts anything, and the child adds the second before it
becomes the command. So whatever runs is on record, and a record of one line is of nothing that
runs. Every process below a child carries the token in its environment (Linux shows it in /proc),
so that grandchildren are known even after the child itself has died.
"""

import json
import os
import platform
import re
import secrets
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError
from agentfly.runtime.launch import start_time

FOLDER_VARIABLE = "AGENTFLY_PROCESSES"
"""Where the records are, if not in the user's state folder."""
TOKEN_VARIABLE = "AGENTFLY_CHILD"
"""Names, in the environment of a child and of all below it, the record that they belong to."""


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
    line = json.dumps({"v": 1, "name": name, "deadline": deadline}) + "\n"
    try:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{owner.pid}-{owner.start}-{token}"
        path.write_text(line, encoding="utf-8")
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
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return None
    # A line that a crash cut short says nothing: no child is started before the first is whole,
    # and no command runs before the second is.
    whole = [line for line in lines if line.endswith("\n")]
    intent: dict[str, Any] = json.loads(whole[0]) if whole else {"name": "unknown", "deadline": 0.0}
    return Record(
        path=path,
        owner=Identity(pid=int(pid), start=int(start)),
        token=token,
        name=intent["name"],
        deadline=intent["deadline"],
        child=_identity(whole[1]) if len(whole) > 1 else None,
    )


def _identity(line: str) -> Identity:
    pid, start = line.split()
    return Identity(pid=int(pid), start=int(start))
