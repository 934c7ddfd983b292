"""Ending what killed runs left behind, and only that."""

import logging
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentfly.runtime.launch import read_stat
from agentfly.runtime.process_registry import TOKEN_VARIABLE, Identity, Record, records

REAP_SECONDS = 5.0
"""What survives SIGKILL for this long stays on record, for the next reaper."""
PAUSE_SECONDS = 0.01
"""The kernel's time to end what was killed, before looking again."""
EXEC_SECONDS = 1.0
"""So long, at the most, a process may be between two programs and have no environment to read."""
KERNEL_THREAD = 0x00200000
"""PF_KTHREAD among the flags of /proc/PID/stat: these have no environment ever."""

Reason = Literal["orphaned", "expired"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """A child that was left behind and has been ended."""

    name: str
    pid: int
    reason: Reason
    """Its owner is dead, or its lifetime was over."""
    processes: int
    """How many were ended: itself, if it still ran, and all below it."""


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
        record = children.get(process) or groups.get(group) or tokens.get(_token(pid))
        if record:
            yield record, process


def _processes() -> Iterator[tuple[int, int, int]]:
    """Yield pid, group and start of all programs in /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        stat = read_stat(int(folder.name))
        if stat and not int(stat[6]) & KERNEL_THREAD:
            yield int(folder.name), int(stat[2]), int(stat[19])


def _token(pid: int) -> str:
    """Read a process's token from its environment, if that is open to this user."""
    try:
        environment = _environment(pid)
    except OSError:
        return ""
    name = f"{TOKEN_VARIABLE}=".encode()
    found = (entry for entry in environment.split(b"\0") if entry.startswith(name))
    return next(found, name)[len(name) :].decode(errors="replace")


def _environment(pid: int) -> bytes:
    """Read the environment of a process; one in the middle of an exec shows none for a moment."""
    patience = time.monotonic() + EXEC_SECONDS
    while True:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if environment or _has_none(pid) or time.monotonic() > patience:
            return environment
        time.sleep(0.001)


def _has_none(pid: int) -> bool:
    """Tell whether an environment is empty, rather than not there yet: then it has an address."""
    stat = read_stat(pid)
    return stat is None or stat[47] == stat[48] != "0"


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
            # The handle is of whoever had the pid when it was opened: this process, or a stranger.
            if process.alive:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
