"""Becomes an ordinary user, then runs a program: `python ordinary_user.py PROGRAM ARGUMENT…`.

Where this Python lies below a folder that only root may enter, a mount namespace of our own shows
it to the user; the host does not notice.
"""

import ctypes
import os
import sys
from pathlib import Path

UID = 61_234
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def main(command: list[str]) -> None:
    if os.getuid() == 0:
        open_the_way_to_this_python()
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
    os.execv(command[0], command)


def open_the_way_to_this_python() -> None:
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    for prefix in {sys.base_prefix, sys.prefix}:
        open_the_way(Path(prefix).resolve())


def open_the_way(wanted: Path) -> None:
    """Put an open folder over the first that is closed, with only `wanted` in it."""
    closed = next(
        (p for p in (*reversed(wanted.parents), wanted) if not p.stat().st_mode & 1), None
    )
    if closed is None or closed == wanted:
        return
    descriptor = os.open(wanted, os.O_PATH)
    check(libc.mount(b"tmpfs", str(closed).encode(), b"tmpfs", 0, b"mode=755"))
    wanted.mkdir(parents=True)
    source = f"/proc/self/fd/{descriptor}".encode()
    check(libc.mount(source, str(wanted).encode(), None, MS_BIND | MS_REC, None))


def check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main(sys.argv[1:])
