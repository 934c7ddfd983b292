"""The file system that every sandbox of a server sees, built once.

    /               a small read-only tmpfs
    /usr /lib …     the system's programs and libraries, read-only
    <the Python>    the interpreter and its packages, read-only, wherever they are outside
    /etc            five harmless files
    /dev            null, random, urandom, zero; shm leads into the scratch folder
    /box            where each sandbox mounts its own scratch folder: work, tmp, shm

Nothing else of the host exists in it: no home, no /proc, no /sys, no /run. Binding folders by open
descriptors makes it indifferent where they are, and whether an unprivileged user could walk there.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agentfly.sandbox.inside import kernel, landlock

BOX = "/box"
WORK = "/box/work"
"""The scratch folder: where code starts, and its home."""

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
_ETC = ("ld.so.cache", "localtime", "mime.types", "alternatives", "fonts")
_PLACE = "/tmp"
"""Mount point of the new root before it becomes the root; the host itself is not changed."""


class Proc(NamedTuple):
    """An open /proc, which is not part of the root file system."""

    descriptor: int
    own: bool
    """Whether it shows this server's pid namespace, or the one outside, with other numbers."""


def build(readable: Iterable[str]) -> Proc:
    """Build the file system and make it this process's root."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    system = _open_all([*_SYSTEM, *(f"/etc/{name}" for name in _ETC)], os.O_NOFOLLOW)
    chosen = _open_all(_uncovered(readable), 0)
    devices = _open_all((f"/dev/{name}" for name in devices_shown()), 0)
    outer_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    kernel.mount("tmpfs", _PLACE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=64m")
    for path, descriptor in {**system, **chosen}.items():
        if _bind(path, descriptor):
            kernel.protect(_PLACE + path)
    for path, descriptor in devices.items():
        _bind(path, descriptor)
        # Writing to a device is no writing to its mount; touching it is.
        kernel.protect(_PLACE + path, kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NOEXEC)
    _furnish()
    proc = _fresh_proc()
    kernel.pivot_root(_PLACE)
    if proc is None:
        return Proc(outer_proc, own=False)
    os.close(outer_proc)
    return Proc(proc, own=True)


def devices_shown() -> tuple[str, ...]:
    """Return the names of the devices that a sandbox sees.

    Code that may write to /dev/zero can map it, which gives memory that no limit counts; only
    Landlock makes it a device for reading.
    """
    return ("null", "random", "urandom", *(("zero",) if landlock.abi() else ()))


def seal() -> None:
    """Make the root itself read-only, once what is preloaded has written its caches."""
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY
    kernel.mount("none", "/", None, flags | kernel.MS_NOSUID | kernel.MS_NODEV)


def _uncovered(paths: Iterable[str]) -> list[str]:
    """Leave out what is inside another folder that is shown.

    >>> _uncovered(["/opt/py/lib", "/opt/py", "/usr/lib/python3"])
    ['/opt/py']
    """
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(Path(path).is_relative_to(shown) for shown in (*kept, *_SYSTEM)):
            kept.append(path)
    return kept


def _open_all(paths: Iterable[str], follow: int) -> dict[str, int]:
    """Open what exists, before the new root hides it."""
    flags = os.O_PATH | os.O_CLOEXEC | follow
    return {path: os.open(path, flags) for path in paths if os.path.lexists(path)}


def _bind(path: str, descriptor: int) -> bool:
    """Show an open file or folder at its own path; False if it was a link, which is copied."""
    target, link = Path(_PLACE + path), f"/proc/self/fd/{descriptor}"
    target.parent.mkdir(parents=True, exist_ok=True)
    is_link = stat.S_ISLNK(os.fstat(descriptor).st_mode)
    if is_link:
        target.symlink_to(os.readlink("", dir_fd=descriptor))
    else:
        _place_for(target, Path(link))
        kernel.mount(link, str(target), None, kernel.MS_BIND | kernel.MS_REC)
    os.close(descriptor)
    return not is_link


def _place_for(target: Path, source: Path) -> None:
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()


def _furnish() -> None:
    """Add what programs look for: a user, a place for scratch folders, links into it."""
    etc, box = Path(_PLACE + "/etc"), Path(_PLACE + BOX)
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text(f"box:x:1000:1000::{WORK}:/bin/sh\n")
    (etc / "group").write_text("box:x:1000:\n")
    for folder in ("work", "tmp", "shm"):
        (box / folder).mkdir(parents=True)
    for path, target in {"/dev/shm": f"{BOX}/shm", "/tmp": f"{BOX}/tmp"}.items():
        # Unless a folder below the host's own is shown; TMPDIR names the right one anyway.
        with suppress(FileExistsError):
            Path(_PLACE + path).symlink_to(target, target_is_directory=True)


def _fresh_proc() -> int | None:
    """Open a /proc that shows this server's processes only; None in a container that forbids it."""
    place = _PLACE + BOX
    try:
        kernel.mount("proc", place, "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
    except OSError:
        return None
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    kernel.unmount(place)
    return descriptor
