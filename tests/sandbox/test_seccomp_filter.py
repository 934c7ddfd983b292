"""The assembled filter, run by a small interpreter of our own, for every processor we know."""

import errno
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("the filter is Linux's", allow_module_level=True)

from agentfly.sandbox.inside import denied, kernel, seccomp

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, ABSENT = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
READ = {"x86_64": 0, "aarch64": 63}


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Do what the kernel does with a filter."""
    data = {0: number, 4: ARCHITECTURES[machine] if architecture is None else architecture}
    data |= {16 + 8 * index: value for index, value in enumerate((*arguments, 0, 0))}
    program, at, loaded = seccomp.program(machine), 0, 0
    while True:
        operation, if_true, if_false, operand = program[at]
        if operation == 0x06:
            return operand
        if operation == 0x20:
            loaded, holds, skips = data[operand], False, (0, 0)
        else:
            tests = {0x15: loaded == operand, 0x25: loaded > operand, 0x45: bool(loaded & operand)}
            holds, skips = tests[operation], (if_true, if_false)
        at += 1 + (skips[0] if holds else skips[1])


machines = pytest.mark.parametrize("machine", ARCHITECTURES)


@machines
def test_every_denied_call_is_refused_and_its_neighbours_are_not(machine: str) -> None:
    numbers = {getattr(number, machine) for number in denied.DENIED.values()} - {None}
    special = {getattr(n, machine) for n in (denied.SOCKET, denied.SOCKETPAIR, denied.CLONE3)}
    for number in range(denied.NEWEST_REVIEWED + 1):
        if number not in special:
            expected = REFUSE if number in numbers else ALLOW
            assert verdict(machine, number) == expected, number


@machines
def test_newer_calls_do_not_exist(machine: str) -> None:
    assert verdict(machine, denied.NEWEST_REVIEWED + 1) == ABSENT
    assert verdict(machine, 0x40000000 + READ[machine]) == ABSENT
    assert verdict(machine, 435) == ABSENT


@machines
def test_another_processors_calls_are_fatal(machine: str) -> None:
    assert verdict(machine, READ[machine], architecture=0x40000003) == KILL


@machines
def test_arguments_decide_where_they_must(machine: str) -> None:
    clone, socket = (getattr(n, machine) for n in (denied.CLONE, denied.SOCKET))
    ioctl, prctl = (getattr(n, machine) for n in (denied.IOCTL, denied.PRCTL))
    assert verdict(machine, clone, 17) == ALLOW
    assert verdict(machine, clone, 17 | kernel.CLONE_NEWUSER) == REFUSE
    assert verdict(machine, clone, kernel.CLONE_NEWNET) == REFUSE
    assert verdict(machine, socket, 1) == ALLOW
    assert verdict(machine, socket, 2) == REFUSE
    assert verdict(machine, ioctl, 0, 0x5412) == REFUSE
    assert verdict(machine, ioctl, 0, 0x5401) == ALLOW
    assert verdict(machine, prctl, 1) == REFUSE
    assert verdict(machine, prctl, 15) == ALLOW
