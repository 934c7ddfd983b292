"""The first thing that every child process runs: tie to the owner, register, become the command.

Started by path as `python -I -S launch.py RECORD OWNER STATUS ADDED GUARDED COMMAND...`, it needs
nothing but the standard library, and little of that, because every start pays for its imports.
Doing this in a program of its own, not between fork and exec, keeps it safe next to the owner's
threads.
"""

import os
import signal
import sys

TOKEN_VARIABLE = "AGENTFLY_CHILD"
"""Names, in the environment of a child and of all below it, the record that they belong to."""
SIGKILL_ON_OWNERS_DEATH = 1
"""PR_SET_PDEATHSIG of Linux's prctl: the kernel sends a signal when the owner's thread ends."""


def main(
    record: str, owner: int, status: int, added: str, guarded: str, command: list[str]
) -> None:
    """Become the command, or write to the pipe `status` what kept it from starting.

    A successful exec closes that pipe without a word. `added` names a variable that the owner did
    not set, but Python may have: LC_CTYPE, where it finds the plain C locale. With `guarded`, a
    guard ends the group as soon as the command has ended.
    """
    os.set_inheritable(status, False)  # noqa: FBT003 - takes no keywords
    try:
        _tie_to_parent()
        _register(record)
        # The owner may have died before the tie held, or where there is no such tie.
        if os.getppid() == owner:
            if guarded:
                _start_guard()
            # Python ignores it, and an ignored signal stays ignored in the command.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.environ.pop(added, None)
            os.execvp(command[0], command)
    except (OSError, ImportError) as error:
        os.write(status, f"{command[0]}: {error}".encode(errors="surrogateescape"))
    os._exit(127)


def _tie_to_parent() -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(SIGKILL_ON_OWNERS_DEATH, signal.SIGKILL, 0, 0, 0)


def _start_guard() -> None:
    """Leave a process in this group that kills the group as soon as the command has ended.

    The kernel ends the command with its owner, but nothing that the command has started. The parent
    of the guard exits at once, so that the command has no child that it never started.
    """
    try:
        command = os.pidfd_open(os.getpid())
    except (AttributeError, OSError):  # An old kernel, or not Linux: the next reaper ends them.
        return
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        os.close(command)
    elif os.fork():
        os._exit(0)
    else:
        _guard(command)


def _guard(command: int) -> None:
    """Wait for the end of the command, and then end all that is left of its group."""
    import select
    from contextlib import suppress

    # The signals that ask the command to end are not for the guard, which has to outlive it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Whoever reads the command's output waits until nobody has it open.
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - pathlib is slow
        with suppress(OSError):  # The listing's own is closed already.
            if descriptor != command:
                os.close(descriptor)
    select.select([command], [], [])
    os.killpg(0, signal.SIGKILL)


def _register(record: str) -> None:
    """Complete the owner's record; without one, this process could not be found again."""
    descriptor = os.open(record, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, f"{os.getpid()} {start_time(os.getpid())}\n".encode())
    os.close(descriptor)


def start_time(pid: int) -> int | None:
    """Return when a living process began; with its pid, this names it once and for all.

    Clock ticks since boot on Linux, seconds since 1970 elsewhere; None for one that has ended.
    """
    if sys.platform != "linux":
        return _start_by_ps(pid)
    stat = read_stat(pid)
    return int(stat[19]) if stat else None


def read_stat(pid: int) -> list[str] | None:
    """Return the fields of `/proc/PID/stat` from the third (the state) on; None for the dead.

    The name before them may hold anything, blanks and brackets included.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            fields = file.read().decode("ascii", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return None if fields[0] in "ZX" else fields


def processor_ticks(pid: int) -> int:
    """Return the processor time of a process in the kernel's ticks; 0 for one that has ended."""
    stat = read_stat(pid)
    return int(stat[11]) + int(stat[12]) if stat else 0


def _start_by_ps(pid: int) -> int | None:
    import subprocess
    import time

    command = ["ps", "-o", "lstart=,stat=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C"}, check=False)
    *began, state = done.stdout.split() or ("Z",)
    if state.startswith("Z"):
        return None
    return int(time.mktime(time.strptime(" ".join(began), "%a %b %d %H:%M:%S %Y")))


if __name__ == "__main__":
    path, pid, pipe, variable, guard, *program = sys.argv[1:]
    main(path, int(pid), int(pipe), variable, guard, program)
