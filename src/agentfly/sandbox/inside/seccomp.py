"""A seccomp filter, assembled by hand from `denied_calls`.

load architecture; not ours → kill
load number; beyond the newest reviewed → ENOSYS
one jump for each denied number → EPERM
clone with a flag for a new namespace, a shared mapping without a file, … → EPERM
locks on files → 0, as if they had been set
all else → allow
"""

import ctypes
import errno
import struct
from collections.abc import Mapping
from functools import cache

from agentfly.sandbox.inside import denied_calls, kernel

_LOAD, _RETURN = 0x20, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_GREATER, _JUMP_IF_ANY_BIT = 0x15, 0x25, 0x45

_KILL, _ALLOW, _ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, (16, 24, 32, 40)
"""Offsets in the kernel's `struct seccomp_data`; of an argument, its lower half."""

_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_NEW_NAMESPACES = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWCGROUP
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
)

_INSTRUCTION = struct.Struct("<HBBI")
Instruction = tuple[int, int, int, int]
"""Operation, how many to skip if true, how many if false, operand."""

_PERMIT: Instruction = (_RETURN, 0, 0, _ALLOW)
_DENY: Instruction = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
_PRETEND_ABSENT: Instruction = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
_PRETEND_DONE: Instruction = (_RETURN, 0, 0, _ERRNO)


def is_known(machine: str) -> bool:
    """Return whether the list has numbers for this processor.

    >>> is_known("x86_64"), is_known("riscv64")
    (True, False)
    """
    return machine in _ARCHITECTURES


def program(machine: str) -> list[Instruction]:
    """Assemble the filter for a processor."""
    instructions: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_GREATER, 0, 1, denied_calls.NEWEST_REVIEWED),
        _PRETEND_ABSENT,
    ]
    for number in sorted(_numbers(machine)):
        instructions += [(_JUMP_IF_EQUAL, 0, 1, number), _DENY]
    instructions += [(_JUMP_IF_EQUAL, 0, 1, _on(machine, denied_calls.CLONE3)), _PRETEND_ABSENT]
    instructions += [(_JUMP_IF_EQUAL, 0, 1, _on(machine, denied_calls.FLOCK)), _PRETEND_DONE]
    rules = {
        denied_calls.CLONE: _deny_bits(0, _NEW_NAMESPACES),
        denied_calls.SOCKETPAIR: [
            *_deny_unless(0, denied_calls.AF_UNIX),
            *_deny_bits(1, denied_calls.DATAGRAMS),
        ],
        denied_calls.IOCTL: _cases(1, dict.fromkeys(denied_calls.FORBIDDEN_IOCTLS.values(), _DENY)),
        denied_calls.PRCTL: _cases(0, dict.fromkeys(denied_calls.FORBIDDEN_PRCTLS.values(), _DENY)),
        denied_calls.MMAP: [
            *_deny_bits(3, denied_calls.MAP_HUGETLB),
            (_JUMP_IF_ANY_BIT, 0, 2, denied_calls.MAP_ANONYMOUS),
            (_JUMP_IF_ANY_BIT, 0, 1, denied_calls.MAP_SHARED),
            _DENY,
        ],
        denied_calls.FCNTL: _cases(
            1,
            dict.fromkeys(denied_calls.FILE_COMMANDS.values(), _PERMIT)
            | dict.fromkeys(denied_calls.LOCK_COMMANDS.values(), _PRETEND_DONE),
            otherwise=_DENY,
        ),
    }
    for call, rule in rules.items():
        body = [*rule, _PERMIT]
        instructions += [(_JUMP_IF_EQUAL, 0, len(body), _on(machine, call)), *body]
    return [*instructions, _PERMIT]


@cache
def assembled(machine: str) -> bytes:
    """Return the filter for a processor as the kernel takes it; made once, before any fork."""
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program(machine))


def load() -> None:
    """Put the filter in force for this process and all below it; it can't be removed."""
    code = assembled(kernel.machine())
    kept = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("<HxxxxxxQ", len(code) // _INSTRUCTION.size, ctypes.addressof(kept))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.set_seccomp(ctypes.create_string_buffer(header, len(header)))


def _numbers(machine: str) -> set[int]:
    numbers = (getattr(number, machine) for number in denied_calls.DENIED.values())
    return {number for number in numbers if number is not None}


def _on(machine: str, number: denied_calls.Number) -> int:
    return int(getattr(number, machine))


def _cases(
    argument: int, verdicts: Mapping[int, Instruction], otherwise: Instruction | None = None
) -> list[Instruction]:
    """Decide by the value of an argument; without a verdict for it, go on."""
    body: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS[argument])]
    for value, verdict in verdicts.items():
        body += [(_JUMP_IF_EQUAL, 0, 1, value), verdict]
    return body if otherwise is None else [*body, otherwise]


def _deny_unless(argument: int, value: int) -> list[Instruction]:
    return [(_LOAD, 0, 0, _ARGUMENTS[argument]), (_JUMP_IF_EQUAL, 1, 0, value), _DENY]


def _deny_bits(argument: int, bits: int) -> list[Instruction]:
    """Deny a call if an argument has any of these bits."""
    return [(_LOAD, 0, 0, _ARGUMENTS[argument]), (_JUMP_IF_ANY_BIT, 0, 1, bits), _DENY]
