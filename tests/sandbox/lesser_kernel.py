"""Runs a program as if this kernel could do less: `python lesser_kernel.py LACKS PROGRAM…`.

LACKS is "landlock", whose calls then don't exist, or "user-namespaces", which are then refused. A
seccomp filter does it, for the program and all below it.
"""

import ctypes
import errno
import os
import struct
import sys

from agentfly.sandbox.inside import denied_calls, kernel

LOAD, JUMP_IF_EQUAL, JUMP_IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16
ALLOW, ERRNO = 0x7FFF0000, 0x50000

Instructions = list[tuple[int, int, int, int]]


def without_landlock() -> Instructions:
    return [
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 0, 1, kernel.LANDLOCK_CREATE_RULESET),
        (RETURN, 0, 0, ERRNO | errno.ENOSYS),
    ]


def without_user_namespaces() -> Instructions:
    calls = (denied_calls.NAMESPACES["unshare"], denied_calls.CLONE)
    unshare, clone = (getattr(call, kernel.machine()) for call in calls)
    return [
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 1, 0, unshare),
        (JUMP_IF_EQUAL, 0, 3, clone),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_ANY_BIT, 0, 1, kernel.CLONE_NEWUSER),
        (RETURN, 0, 0, ERRNO | errno.EPERM),
    ]


FILTERS = {"landlock": without_landlock, "user-namespaces": without_user_namespaces}


def load(instructions: Instructions) -> None:
    whole = [*instructions, (RETURN, 0, 0, ALLOW)]
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in whole)
    kept = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("<HxxxxxxQ", len(whole), ctypes.addressof(kept))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.set_seccomp(ctypes.create_string_buffer(header, len(header)))


if __name__ == "__main__":
    load(FILTERS[sys.argv[1]]())
    os.execv(sys.argv[2], sys.argv[2:])
