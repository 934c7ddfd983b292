"""A cgroup for each sandbox, where one can be had: the kernel itself then counts its memory.

Shared pages, page tables, buffers of sockets and files of the scratch folder are all in its count,
and no moment passes between exceeding the limit and being stopped. Version 2 only:

    <the parent of our own cgroup>/
        agentfly-<token>/      a fork server's, which keeps it locked (flock) as long as it lives
            0/  1/  2/         a sandbox each

So this needs no rights but those that a delegated tree, or root, has: to make a sibling of our own
cgroup, in a parent that gives `memory` to its children, and to move processes there. What a killed
server left behind is no longer locked, and is removed by the next one.
"""

import fcntl
import itertools
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "agentfly-"
_SWAP = "memory.swap.max"
"""Absent where the kernel does not count swap."""


class NoCgroupError(Exception):
    """Why no cgroup can be had here."""


@dataclass(slots=True)
class Group:
    """One sandbox's cgroup."""

    parent: int
    """Descriptor of the server's folder."""
    name: str

    def enter(self) -> None:
        """Move this process, and so all that it will fork."""
        _write(f"{self.name}/cgroup.procs", "0", self.parent)

    def was_exceeded(self) -> bool:
        """Return whether the kernel has killed a process because this cgroup's limit was met."""
        try:
            words = _read(f"{self.name}/memory.events", self.parent).split()
        except OSError:
            return False
        events = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return events.get("oom", 0) > 0 and events.get("oom_kill", 0) > 0

    def remove(self) -> bool:
        """Remove it once its last process has gone; False if there still is one."""
        try:
            os.rmdir(self.name, dir_fd=self.parent)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class Groups:
    """A fork server's own cgroup, and those of its sandboxes below it."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self.path = path
        self._beside = os.open(path.parent, flags)
        self._folder = os.open(path, flags)
        self._numbers = itertools.count()
        self._emptied: list[Group] = []
        """Groups that could not be removed yet."""

    @classmethod
    def make(cls) -> "Groups":
        """Make a server's cgroup; raise NoCgroupError where that can't be."""
        parent = _parent_of_ours()
        remove_abandoned(parent)
        path = parent / f"{PREFIX}{secrets.token_hex(8)}"
        try:
            path.mkdir()
            try:
                made = cls(path)
                # Not by filelock, which this process does not import: it locks a folder that is
                # open anyway, and everything imported here is in the memory of every sandbox.
                fcntl.flock(made._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _write("cgroup.subtree_control", "+memory", made._folder)
                made._try()
            except OSError:
                remove(path)
                raise
        except OSError as error:
            raise NoCgroupError(f"{path.parent}: {error.strerror}") from error
        return made

    def open(self, limit: int) -> Group:
        """Make a sandbox's cgroup with a limit in bytes."""
        self._emptied = [group for group in self._emptied if not group.remove()]
        group = Group(self._folder, str(next(self._numbers)))
        os.mkdir(group.name, dir_fd=self._folder)
        try:
            _write(f"{group.name}/memory.max", str(limit), self._folder)
            _write(f"{group.name}/memory.oom.group", "1", self._folder)
            with suppress(FileNotFoundError):
                _write(f"{group.name}/{_SWAP}", "0", self._folder)
        except OSError:
            group.remove()
            raise
        return group

    def close(self, group: Group) -> None:
        """Remove a sandbox's cgroup, now or with one of the next."""
        if not group.remove():
            self._emptied.append(group)

    def discard(self) -> None:
        """Remove the server's own cgroup, from whichever root and before it has sandboxes."""
        with suppress(OSError):
            os.rmdir(self.path.name, dir_fd=self._beside)

    def _try(self) -> None:
        """Move a process, which is refused where only the cgroup itself is ours."""
        group = self.open(1 << 30)
        child = os.fork()
        if child == 0:
            try:
                group.enter()
                os._exit(0)
            except OSError as error:
                os._exit(error.errno or 1)
        number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        group.remove()
        if number:
            raise OSError(number, f"no process can be moved: {os.strerror(number)}")


def remove_abandoned(parent: Path) -> None:
    """Remove the cgroups of servers that live no more."""
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
            finally:
                os.close(folder)


def remove(path: Path) -> bool:
    """Remove a server's cgroup and those below it; False if something still runs in one."""
    try:
        for below in path.iterdir():
            if below.is_dir():
                below.rmdir()
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _parent_of_ours() -> Path:
    """Find the cgroup in which siblings of our own can be made."""
    own, mount = _own_cgroup(), _mount_point()
    parent = (mount / own.relative_to("/")).parent if own != Path("/") else mount
    try:
        controllers = (parent / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError as error:
        raise NoCgroupError(f"{parent}: {error.strerror}") from error
    if "memory" not in controllers:
        raise NoCgroupError(f"{parent} gives no memory controller to its children")
    return parent


def _own_cgroup() -> Path:
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            return Path(path)
    raise NoCgroupError("no cgroups of version 2")


def _mount_point() -> Path:
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, root, point, *_ = before.split()
        if after.split()[0] == "cgroup2" and root == "/":
            return Path(point)
    raise NoCgroupError("no cgroups of version 2 are mounted")


def _read(path: str, folder: int) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY, dir_fd=folder), encoding="ascii") as file:
        return file.read()


def _write(path: str, text: str, folder: int) -> None:
    descriptor = os.open(path, os.O_WRONLY, dir_fd=folder)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
