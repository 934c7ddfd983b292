"""A seccomp filter, assembled by hand from `denied`.

load architecture; not ours → kill
load number; beyond the newest reviewed → ENOSYS
one jump for each denied number → EPERM
clone with a flag for a new namespace, sockets but of AF_UNIX, … → EPERM
all else → allow
"""

import ctypes
import errno
import struct

from agentfly.sandbox.inside import denied, kernel

_LOAD, _RETURN = 0x20, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_GREATER, _JUMP_IF_ANY_BIT = 0x15, 0x25, 0x45

_KILL, _ALLOW, _ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Where things are in the kernel's `struct seccomp_data`; of an argument, the lower half."""

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

Instruction = tuple[int, int, int, int]
"""Operation, how many to skip if true, how many if false, operand."""

_DENY: Instruction = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
_PRETEND_ABSENT: Instruction = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)


def is_known(machine: str) -> bool:
    """Tell whether the list has numbers for this processor.

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
        (_JUMP_IF_GREATER, 0, 1, denied.NEWEST_REVIEWED),
        _PRETEND_ABSENT,
    ]
    for number in sorted(_numbers(machine)):
        instructions += [(_JUMP_IF_EQUAL, 0, 1, number), _DENY]
    instructions += [(_JUMP_IF_EQUAL, 0, 1, _on(machine, denied.CLONE3)), _PRETEND_ABSENT]
    instructions += _unless_any_bit(_on(machine, denied.CLONE), _NEW_NAMESPACES)
    for call in (denied.SOCKET, denied.SOCKETPAIR):
        instructions += _only_if_equal(_on(machine, call), denied.AF_UNIX)
    for request in denied.FORBIDDEN_IOCTLS.values():
        instructions += _unless_equal(_on(machine, denied.IOCTL), _SECOND_ARGUMENT, request)
    instructions += _unless_equal(
        _on(machine, denied.PRCTL), _FIRST_ARGUMENT, denied.PR_SET_PDEATHSIG
    )
    return [*instructions, (_RETURN, 0, 0, _ALLOW)]


def load() -> None:
    """Put the filter in force for this process and all below it, for ever."""
    instructions = program(kernel.machine())
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)
    kept = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("<HxxxxxxQ", len(instructions), ctypes.addressof(kept))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.set_seccomp(ctypes.create_string_buffer(header, len(header)))


def _numbers(machine: str) -> set[int]:
    numbers = (getattr(number, machine) for number in denied.DENIED.values())
    return {number for number in numbers if number is not None}


def _on(machine: str, number: denied.Number) -> int:
    return int(getattr(number, machine))


def _unless_equal(call: int, argument: int, value: int) -> list[Instruction]:
    """Deny a call if an argument has this value, and go on with the number loaded again."""
    return [
        (_JUMP_IF_EQUAL, 0, 4, call),
        (_LOAD, 0, 0, argument),
        (_JUMP_IF_EQUAL, 0, 1, value),
        _DENY,
        (_LOAD, 0, 0, _NUMBER),
    ]


def _only_if_equal(call: int, value: int) -> list[Instruction]:
    """Deny a call unless its first argument has this value."""
    return [
        (_JUMP_IF_EQUAL, 0, 4, call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_EQUAL, 1, 0, value),
        _DENY,
        (_LOAD, 0, 0, _NUMBER),
    ]


def _unless_any_bit(call: int, bits: int) -> list[Instruction]:
    """Deny a call if its first argument has any of these bits."""
    return [
        (_JUMP_IF_EQUAL, 0, 4, call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_ANY_BIT, 0, 1, bits),
        _DENY,
        (_LOAD, 0, 0, _NUMBER),
    ]
