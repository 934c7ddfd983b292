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
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from agentfly.errors import ConfigError
from agentfly.runtime.journal import add_checksum, has_valid_checksum
from agentfly.runtime.launch import TOKEN_VARIABLE, read_stat, start_time

FOLDER_VARIABLE = "AGENTFLY_PROCESSES"
"""Names the folder of the records, if it is not the user's state folder."""
UNKNOWN = "unknown"
"""The name of a child whose record has none."""

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


REAP_SECONDS = 5.0
"""Maximum time of a reaper; a process that survives SIGKILL so long stays on record."""
PAUSE_SECONDS = 0.01
"""The kernel's time to end what was killed, before looking again."""
EXEC_SECONDS = 1.0
"""Maximum time in which a process in the middle of an exec has no environment to read."""
KERNEL_THREAD = 0x00200000
"""PF_KTHREAD among the flags of /proc/PID/stat: these have no environment ever."""

Reason = Literal["orphaned", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """A child that was left behind and has been ended."""

    name: str
    pid: int
    reason: Reason
    """Its owner is dead, or its lifetime was over."""
    processes: int
    """Number of ended processes: the child, if it still ran, and all below it."""


def reap() -> list[Reaped]:
    """End what killed runs left behind; call it at start-up. It takes REAP_SECONDS at the most.

    Ended are the children, and all below them, of owners that are dead, and those whose lifetime
    is over although the owner lives: it promised so, and may be hung itself. A process is known
    by its pid and start, or by its token, never by its pid alone. Several reapers may run at
    once: what they ended together may be reported by each. Without /proc (macOS), what is below a
    child is known by its process group, and only while the child itself lives.
    """
    doomed = {record: reason for record in records() if (reason := _reason(record))}
    ended = _end(doomed)
    for record in doomed:
        if not _survived(record, ended[record]):
            record.remove()
    return [
        Reaped(
            name=record.name,
            pid=record.child.pid,
            reason=reason,
            processes=len(ended[record]),
        )
        for record, reason in doomed.items()
        if record.child and ended[record]
    ]


def _reason(record: Record) -> Reason | None:
    if record.token == os.environ.get(TOKEN_VARIABLE):
        return None  # This very process runs below that child.
    if not record.owner.alive:
        return "orphaned"
    # A live owner's record without a child is of a start that is under way.
    return "expired" if record.child and record.deadline < time.time() else None


def _end(doomed: Collection[Record]) -> dict[Record, set[Identity]]:
    """Kill until nothing is left: a later look finds what was forked during an earlier one."""
    ended: dict[Record, set[Identity]] = {record: set() for record in doomed}
    patience = time.monotonic() + REAP_SECONDS
    while doomed and (living := list(_living(doomed))) and time.monotonic() < patience:
        for record, process in living:
            _kill(process)
            ended[record].add(process)
        time.sleep(PAUSE_SECONDS)
    return ended


def _survived(record: Record, processes: Iterable[Identity]) -> bool:
    pids = [process.pid for process in processes if process.alive]
    if pids:
        _log.error("%s: processes %s can't be killed; they stay on record", record.name, pids)
    return bool(pids)


def _living(doomed: Collection[Record]) -> Iterator[tuple[Record, Identity]]:
    """Yield every living process that belongs to one of the records."""
    children = {record.child: record for record in doomed if record.child}
    if sys.platform != "linux":
        yield from ((record, child) for child, record in children.items() if child.alive)
        return
    tokens = {record.token: record for record in doomed}
    # While its leader lives, a group's number can't have been given to another group.
    groups = {child.pid: record for child, record in children.items() if child.alive}
    for pid, group, start in _processes():
        process = Identity(pid=pid, start=start)
        record = children.get(process) or groups.get(group) or tokens.get(read_token(pid))
        if record:
            yield record, process


def _processes() -> Iterator[tuple[int, int, int]]:
    """Yield pid, group and start of all programs in /proc.

    Not by psutil, whose start is in seconds: a launcher without installed packages writes the start
    into the record, in the kernel's own clock ticks, and both must be equal.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        stat = read_stat(int(folder.name))
        if stat and not int(stat[6]) & KERNEL_THREAD:
            yield int(folder.name), int(stat[2]), int(stat[19])


def read_token(pid: int) -> str:
    """Read a process's token from its environment, if that is open to this user."""
    try:
        environment = _environment(pid)
    except OSError:
        return ""
    name = f"{TOKEN_VARIABLE}=".encode()
    found = (entry for entry in environment.split(b"\0") if entry.startswith(name))
    return next(found, name)[len(name) :].decode(errors="replace")


def _environment(pid: int) -> bytes:
    """Read the environment of a process; one in the middle of an exec shows none for a moment.

    psutil's `environ` returns {} in that moment, and so loses a process that execs all the time.
    """
    patience = time.monotonic() + EXEC_SECONDS
    while True:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if environment or _has_none(pid) or time.monotonic() > patience:
            return environment
        time.sleep(0.001)


def _has_none(pid: int) -> bool:
    """Return whether an environment is empty, not missing: an empty one has an address.

    So has, for a moment, one that an exec is about to fill. An exec runs or waits for a disk: only
    a process that does neither is known to have none.
    """
    stat = read_stat(pid)
    return stat is None or (stat[47] == stat[48] != "0" and stat[0] not in "RD")


def _kill(process: Identity) -> None:
    """End this very process, even if its pid is given to another in this very moment."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform != "linux":
            os.killpg(process.pid, signal.SIGKILL)
            return
        try:
            handle = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # An old kernel or Python has no handles.
            if process.alive:
                os.kill(process.pid, signal.SIGKILL)
            return
        try:
            # The handle is of the process that had the pid when it was opened, this one or another.
            if process.alive:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
