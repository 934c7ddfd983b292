"""The first thing that every child process runs: tie to the owner, register, become the command.

Started by path as `python -I -S launch.py RECORD OWNER STATUS ADDED COMMAND...`, it needs nothing
but the standard library, and little of that, because every start pays for its imports. Doing this
in a program of its own, not between fork and exec, keeps it safe next to the owner's threads.
"""

import os
import signal
import sys

TOKEN_VARIABLE = "AGENTFLY_CHILD"
"""Names, in the environment of a child and of all below it, the record that they belong to."""
SIGKILL_ON_OWNERS_DEATH = 1
"""PR_SET_PDEATHSIG of Linux's prctl: the kernel sends a signal when the owner's thread ends."""


def main(record: str, owner: int, status: int, added: str, command: list[str]) -> None:
    """Become the command, or write to the pipe `status` what kept it from starting.

    A successful exec closes that pipe without a word. `added` names a variable that the owner did
    not set, but Python may have: LC_CTYPE, where it finds the plain C locale.
    """
    os.set_inheritable(status, False)  # noqa: FBT003 - takes no keywords
    try:
        _tie_to_parent()
        _register(record)
        # The owner may have died before the tie held, or where there is no such tie.
        if os.getppid() == owner:
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
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
