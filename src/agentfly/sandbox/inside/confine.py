"""Turn a new fork of the server into a sandbox, in an order that matters.

    own uid → namespaces → uid map → scratch folder → rlimits → no capabilities → Landlock → seccomp

Each step needs rights that a later one takes away; after the last, nothing can be taken back.
"""

import importlib
import os
import resource
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.sandbox.inside import kernel, landlock, open_files, rootfs, seccomp
from agentfly.sandbox.limits import SandboxLimits

_NAMESPACES_OF_THE_USERS = (
    kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWCGROUP
)
_USER_INSIDE = 1000
OPEN_FILES = 256
"""Maximum number of open files of each process in a sandbox."""
_PENDING_SIGNALS = 1024
"""Signals in a queue, and timers: the kernel counts them for all processes of a user together."""
CHANNEL = 200
"""The descriptor over which a sandbox receives its owner's channel, and then that channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnContext:
    """The values of the server that a new sandbox needs to confine itself."""

    proc: int
    """An open /proc; closed before any foreign code runs."""
    uid: int | None
    """The uid to take on outside; None to keep the server's own, which an ordinary user must."""
    address_space: int
    """Bytes of address space that the server itself takes."""


def become_sandbox(limits: SandboxLimits, context: SpawnContext) -> None:
    """Turn this process, the first of a new pid namespace, into a sandbox."""
    os.setsid()
    if context.uid is not None:
        _take_on(context.uid)
    _enter_namespaces(context.proc)
    os.close(context.proc)
    _mount_scratch(limits)
    set_limits(limits, context.address_space)
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    restrict_process()


def await_channel() -> int:
    """Wait for a sandbox's owner: take the channel's place, and return the seed that came along."""
    with socket.socket(fileno=os.dup(CHANNEL)) as waiting_room:
        data, descriptors, _, _ = socket.recv_fds(waiting_room, 64, 1)
    if not data:
        os._exit(0)  # The server has ended.
    os.dup2(descriptors[0], CHANNEL, inheritable=False)
    os.close(descriptors[0])
    return int(data)


def restrict_process() -> None:
    """Put in force what needs no rights: Landlock, where the kernel has it, and seccomp."""
    if landlock.abi():
        rights = {
            "/": landlock.READ,
            rootfs.BOX: landlock.everything(),
            "/dev/null": landlock.READ_FILE | landlock.WRITE_FILE,
        }
        landlock.restrict(rights)
    seccomp.load()


def fork_workers() -> None:
    """Let multiprocessing fork, unless code chooses otherwise.

    Its default from Python 3.14 on, a fork server, needs a socket with a name.
    """
    if sys.version_info >= (3, 14):
        context: Any = importlib.import_module("multiprocessing.context")
        context._default_context._default_context = context._concrete_contexts["fork"]


def set_limits(limits: SandboxLimits, address_space: int, *, count_processes: bool = True) -> None:
    """Set the kernel's limits for this process and all below it; they can't be raised again.

    Where this process already is under a lower one, that one stays.
    Processes can be counted only in a user namespace: elsewhere the kernel counts all of the user.
    """
    megabyte = 1 << 20
    kernel_limits = {
        resource.RLIMIT_AS: address_space + limits.memory_mb * megabyte,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_mb * megabyte,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if sys.platform == "linux":
        kernel_limits[resource.RLIMIT_MSGQUEUE] = 0
        kernel_limits[resource.RLIMIT_SIGPENDING] = _PENDING_SIGNALS
    if count_processes:
        kernel_limits[resource.RLIMIT_NPROC] = limits.processes
    for which, value in kernel_limits.items():
        _, hard = resource.getrlimit(which)
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (lower, lower))


def keep_only(channel: int, proc: int) -> None:
    """Close every descriptor but these two, the channel under its fixed number."""
    assert proc < CHANNEL, "opened before there were sandboxes"
    if channel != CHANNEL:
        os.dup2(channel, CHANNEL, inheritable=False)
    os.closerange(0, proc)
    os.closerange(proc + 1, CHANNEL)
    os.closerange(CHANNEL + 1, open_files.limit())


def _take_on(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # Changing the uid made this process's /proc files root's own; the uid map is among them.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def _enter_namespaces(proc: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    kernel.unshare(_NAMESPACES_OF_THE_USERS)
    _write(proc, "setgroups", "deny")
    _write(proc, "uid_map", f"{_USER_INSIDE} {uid} 1")
    _write(proc, "gid_map", f"{_USER_INSIDE} {gid} 1")
    socket.sethostname("sandbox")


def _write(proc: int, name: str, text: str) -> None:
    descriptor = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def _mount_scratch(limits: SandboxLimits) -> None:
    """Open files for the output in a small tmpfs, and hide it under the scratch folder's own."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    room = f"size={limits.output_mb}m,nr_inodes=8,mode=700"
    kernel.mount("tmpfs", rootfs.BOX, "tmpfs", flags, room)
    _open_standard_streams()
    quota = f"size={limits.disk_mb}m,nr_inodes={limits.files},mode=700"
    kernel.mount("tmpfs", rootfs.BOX, "tmpfs", flags, quota)
    for folder in ("work", "tmp", "shm"):
        Path(rootfs.BOX, folder).mkdir()
    os.chdir(rootfs.WORK)


def _open_standard_streams() -> None:
    """Read from nothing, and write into files that have no name."""
    _open_as(0, "/dev/null", os.O_RDONLY)
    for number in (1, 2):
        _open_as(number, rootfs.BOX, os.O_RDWR | os.O_APPEND | os.O_TMPFILE)


def _open_as(number: int, path: str, flags: int) -> None:
    opened = os.open(path, flags, 0o600)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)  # noqa: FBT003 - takes no keywords
