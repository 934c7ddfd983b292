"""Raw system calls of Linux, for what Python's standard library does not offer."""

import ctypes
import os
import platform

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38

PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
MOUNT_SETATTR = 442
CAPSET = {"x86_64": 126, "aarch64": 91}
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_CAPABILITY_VERSION_3 = 0x2008_0522

_libc = ctypes.CDLL(None, use_errno=True)


def machine() -> str:
    """Return the processor's name, for the tables of call numbers.

    >>> machine() in PIVOT_ROOT
    True
    """
    return platform.machine()


def unshare(flags: int) -> None:
    kind = "user namespace" if flags & CLONE_NEWUSER else "namespace"
    check(_libc.unshare(flags), f"making a {kind}")


def setns(descriptor: int, flags: int) -> None:
    check(_libc.setns(descriptor, flags), "setns")


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def set_seccomp(program: ctypes.Array[ctypes.c_char]) -> None:
    """Load a filter (mode 2) for this process and all below it."""
    zero, address = ctypes.c_ulong(0), ctypes.c_void_p(ctypes.addressof(program))
    done = _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), address, zero, zero)
    check(done, "loading the seccomp filter")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    done = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    check(done, f"mounting {kind or source} at {target}")


def unmount(target: str) -> None:
    """Take a mount out of sight; what is open in it stays usable."""
    check(_libc.umount2(target.encode(), MNT_DETACH), f"unmounting {target}")


def protect(target: str, flags: int = MS_RDONLY | MS_NOSUID | MS_NODEV) -> None:
    """Make a mount, and all mounts below it, read-only and without devices and set-uid files.

    Other than a remount, this only ever adds flags, so that it never fails for a flag that an
    outer namespace has locked.
    """
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    done = system_call(
        MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE, ctypes.byref(attributes), 32
    )
    check(done, f"making {target} read-only")


def pivot_root(folder: str) -> None:
    """Make a mounted folder the root, and let go of the old one."""
    os.chdir(folder)
    check(system_call(PIVOT_ROOT[machine()], b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability, for this process and all that it executes."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # Beyond the last one of this kernel.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    done = system_call(CAPSET[machine()], ctypes.byref(header), ctypes.byref(none))
    check(done, "dropping capabilities")


def system_call(number: int, *arguments: object) -> int:
    """Make a call by its number; -1 means failure, with the reason in errno."""
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *wide))


def check(result: int, doing: str) -> int:
    """Raise OSError if a system call has failed; return what it returned."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
    return result
