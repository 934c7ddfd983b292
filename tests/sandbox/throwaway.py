"""Runs a program in namespaces that end with it: `python throwaway.py PROGRAM ARGUMENT…`.

What gets out of a sandbox in here meets this guard, and nothing of the host: a user, a pid, a
network, an ipc, a uts and a cgroup namespace, every folder read-only but one small tmpfs, and hard
limits. As root, the program is root in here and nobody outside; as an ordinary user, the same user.

    this program ──► the maker of the namespaces ──► their first process ──► PROGRAM

The third ends with the time limit or with PROGRAM, and all that is in here ends with it.
"""

import ctypes
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.sandbox.ordinary_user import open_the_way_to_this_python

from agentfly.sandbox.inside import kernel

SCRATCH = "/dev/shm"
"""The only folder that can be written to; it exists wherever there is Linux."""
SCRATCH_MB, SCRATCH_FILES = 160, 16_000
SECONDS = int(os.environ.get("THROWAWAY_SECONDS", "100"))
PROCESSES = 200
"""Of each user in here, threads included."""
LIMITS = {
    resource.RLIMIT_NPROC: PROCESSES,
    resource.RLIMIT_AS: 3 << 30,
    resource.RLIMIT_FSIZE: 64 << 20,
    resource.RLIMIT_CPU: 90,
    resource.RLIMIT_CORE: 0,
}
"""Wider than those of the sandboxes within, so that a sandbox without limits is noticed."""
REFUSED, TIMED_OUT = 77, 124
"""Exit codes: this machine allows no such namespaces; the time was up."""

ROOT_OUTSIDE = 0x5000_0000
"""Who root is outside: a uid that no system gives to anybody. The true root has no NPROC limit."""
ROOTS_MAP = f"0 {ROOT_OUTSIDE} 65536\n{0x7000_0000} {0x6000_0000} {0x1000_0000}"
"""In here root can also give uids to sandboxes, from where it does so outside."""
NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)


def main(command: list[str]) -> int:
    """Return the program's exit code, as a shell would."""
    is_root = os.getuid() == 0
    if is_root:
        open_the_way_to_this_python()
    unshared, mapped = os.pipe(), os.pipe()

    def make() -> int:
        if is_root:
            become_nobody()
        kernel.unshare(NAMESPACES)
        os.write(unshared[1], b"x")
        os.close(mapped[1])
        if not os.read(mapped[0], 1):
            return REFUSED
        return wait_for(fork(lambda: be_first(command)))

    maker = fork(make)
    os.close(unshared[1])
    if os.read(unshared[0], 1):
        write_maps(maker, is_root=is_root)
        os.write(mapped[1], b"x")
    return wait_for(maker)


def insist() -> None:
    """Raise where this process is not within these namespaces and limits."""
    limits = {which: resource.getrlimit(which) for which in LIMITS}
    if os.getppid() != 1 or limits != {which: (value, value) for which, value in LIMITS.items()}:
        raise RuntimeError("harmful attempts are run by throwaway.py, and never bare")


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(ROOT_OUTSIDE, ROOT_OUTSIDE, ROOT_OUTSIDE)
    os.setresuid(ROOT_OUTSIDE, ROOT_OUTSIDE, ROOT_OUTSIDE)
    tie_to_parent()  # Changing the uid has cut the tie.


def write_maps(pid: int, *, is_root: bool) -> None:
    folder = Path(f"/proc/{pid}")
    if not is_root:
        (folder / "setgroups").write_text("deny")
    own = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    for name, number in own.items():
        (folder / name).write_text(ROOTS_MAP if is_root else f"{number} {number} 1")


def be_first(command: list[str]) -> int:
    """Be the first process: furnish the namespaces, start the program and bury all orphans."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(TIMED_OUT))
    signal.alarm(SECONDS)
    close_the_files()
    program = fork(lambda: become(command))
    while True:
        pid, status = os.wait()
        if pid == program:
            return as_in_a_shell(status)


def close_the_files() -> None:
    """Make everything read-only, then mount a /proc and a scratch folder of our own."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    attributes = (ctypes.c_uint64 * 4)(kernel.MS_RDONLY | kernel.MS_NOSUID, 0, 0, 0)
    recursive = 0x8000
    done = kernel.system_call(
        kernel.MOUNT_SETATTR, -1, b"/", recursive, ctypes.byref(attributes), 32
    )
    kernel.check(done, "making / read-only")
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
    quota = f"size={SCRATCH_MB}m,nr_inodes={SCRATCH_FILES},mode=1777"
    kernel.mount("tmpfs", SCRATCH, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, quota)


def become(command: list[str]) -> int:
    for which, value in LIMITS.items():
        resource.setrlimit(which, (value, value))
    os.execve(command[0], command, {**os.environ, "TMPDIR": SCRATCH})


def fork(play: Callable[[], int]) -> int:
    """Play a part in a child that ends with this process."""
    child = os.fork()
    if child:
        return child
    tie_to_parent()
    os._exit(played(play))


def played(part: Callable[[], int]) -> int:
    """Play a part; whatever else goes wrong is told apart from what the machine refuses."""
    try:
        return part()
    except OSError as error:
        print(f"no throw-away namespaces: {error}", file=sys.stderr, flush=True)
        return REFUSED
    except BaseException:  # noqa: BLE001 - a fork must not go on as its parent would
        traceback.print_exc()
        return 1


def tie_to_parent() -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(pid: int) -> int:
    return as_in_a_shell(os.waitpid(pid, 0)[1])


def as_in_a_shell(status: int) -> int:
    """Return an exit code, or 128 and the number of the signal that ended it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(played(lambda: main(sys.argv[1:])))
