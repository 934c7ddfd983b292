"""Landlock: the kernel's list of what a process may touch, regardless of what it sees.

A second layer behind the mount namespace: the root is for reading, the scratch folder for all else.
Newer kernels add more (ABI 4: TCP; 5: device controls; 6: signals and abstract sockets).
"""

import os
import struct
from collections.abc import Mapping

from agentfly.sandbox.inside import kernel

_EXECUTE, WRITE_FILE, READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_ALL_OF_ABI_1 = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ADDED = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_BIND_AND_CONNECT_TCP = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3
_PATH_BENEATH = 1
_ASK_VERSION = 1

READ = _EXECUTE | READ_FILE | _READ_DIR
"""Reading and running what is there."""


def abi() -> int:
    """Return the version that this kernel offers; 0 if none."""
    return max(0, kernel.system_call(kernel.LANDLOCK_CREATE_RULESET, None, 0, _ASK_VERSION))


def everything() -> int:
    """Return every right over files that this kernel can grant, but making device nodes."""
    return _handled(abi()) & ~(_MAKE_CHAR | _MAKE_BLOCK)


def restrict(rights: Mapping[str, int]) -> None:
    """Allow this process, and all below it, these rights beneath these paths, and no others."""
    version = abi()
    attributes = struct.pack(
        "<QQQ",
        _handled(version),
        _BIND_AND_CONNECT_TCP if version >= 4 else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    create = kernel.system_call(kernel.LANDLOCK_CREATE_RULESET, attributes, size, 0)
    ruleset = kernel.check(create, "making a Landlock ruleset")
    for path, right in rights.items():
        _allow(ruleset, path, right)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    done = kernel.system_call(kernel.LANDLOCK_RESTRICT_SELF, ruleset, 0)
    kernel.check(done, "putting Landlock in force")
    os.close(ruleset)


def _handled(version: int) -> int:
    return _ALL_OF_ABI_1 | sum(right for added, right in _ADDED.items() if version >= added)


def _allow(ruleset: int, path: str, right: int) -> None:
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("<Qi", right, beneath)
    done = kernel.system_call(kernel.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    os.close(beneath)
    kernel.check(done, f"a Landlock rule for {path}")
