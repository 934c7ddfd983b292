"""The assembled filter, run by a small interpreter of our own, for every processor we know."""

import errno
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("the filter is Linux's", allow_module_level=True)

from agentfly.sandbox.inside import denied_calls, kernel, seccomp

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, ABSENT, DONE = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x50000
READ = {"x86_64": 0, "aarch64": 63}


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Do what the kernel does with a filter."""
    data = {0: number, 4: ARCHITECTURES[machine] if architecture is None else architecture}
    data |= {16 + 8 * index: value for index, value in enumerate((*arguments, *[0] * 6))}
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
def test_every_denied_call_is_refused_and_its_neighbors_are_not(machine: str) -> None:
    numbers = {getattr(number, machine) for number in denied_calls.DENIED.values()} - {None}
    special = {
        getattr(n, machine)
        for n in (denied_calls.SOCKETPAIR, denied_calls.CLONE3, denied_calls.FLOCK)
    }
    for number in range(denied_calls.NEWEST_REVIEWED + 1):
        if number not in special:
            expected = REFUSE if number in numbers else ALLOW
            assert verdict(machine, number) == expected, number


@machines
def test_newer_calls_do_not_exist(machine: str) -> None:
    assert verdict(machine, denied_calls.NEWEST_REVIEWED + 1) == ABSENT
    assert verdict(machine, 0x40000000 + READ[machine]) == ABSENT
    assert verdict(machine, 435) == ABSENT


@machines
def test_another_processors_calls_are_fatal(machine: str) -> None:
    assert verdict(machine, READ[machine], architecture=0x40000003) == KILL


@machines
def test_arguments_decide_where_they_must(machine: str) -> None:
    clone, pair = (getattr(n, machine) for n in (denied_calls.CLONE, denied_calls.SOCKETPAIR))
    ioctl, prctl = (getattr(n, machine) for n in (denied_calls.IOCTL, denied_calls.PRCTL))
    assert verdict(machine, clone, 17) == ALLOW
    assert verdict(machine, clone, 17 | kernel.CLONE_NEWUSER) == REFUSE
    assert verdict(machine, clone, kernel.CLONE_NEWNET) == REFUSE
    stream, datagram, raw, packets, close_on_exec = 1, 2, 3, 5, 0x80000
    assert verdict(machine, pair, 1, stream | close_on_exec) == ALLOW
    assert verdict(machine, pair, 1, packets) == ALLOW
    assert verdict(machine, pair, 1, datagram) == REFUSE
    assert verdict(machine, pair, 1, raw | close_on_exec) == REFUSE
    assert verdict(machine, pair, 2, stream) == REFUSE
    assert verdict(machine, ioctl, 0, 0x5412) == REFUSE
    assert verdict(machine, ioctl, 0, 0x5401) == ALLOW
    assert verdict(machine, prctl, 1) == REFUSE
    assert verdict(machine, prctl, 4) == REFUSE
    assert verdict(machine, prctl, 22) == REFUSE
    assert verdict(machine, prctl, 15) == ALLOW


@machines
def test_no_memory_is_shared_without_a_file(machine: str) -> None:
    def mapping(flags: int) -> int:
        return verdict(machine, getattr(denied_calls.MMAP, machine), 0, 4096, 3, flags)

    shared, private, validate, anonymous, fixed, huge = 1, 2, 3, 0x20, 0x10, 0x40000
    for flags in (private, private | anonymous, private | anonymous | fixed, shared, validate):
        assert mapping(flags) == ALLOW, flags
    for flags in (shared | anonymous, validate | anonymous, shared | anonymous | fixed):
        assert mapping(flags) == REFUSE, flags
    for kind in (shared, private):
        assert mapping(kind | huge) == mapping(kind | huge | anonymous) == REFUSE


@machines
def test_locks_are_granted_unset_and_all_else_on_shared_inodes_is_refused(machine: str) -> None:
    def control(command: int) -> int:
        return verdict(machine, getattr(denied_calls.FCNTL, machine), 3, command)

    assert verdict(machine, getattr(denied_calls.FLOCK, machine), 3, 2) == DONE
    assert {control(command) for command in (6, 7, 37, 38)} == {DONE}
    assert {control(command) for command in (0, 1, 2, 3, 4, 5, 36, 1030)} == {ALLOW}
    leases, notifies, pipe_size, hints, newer = (1024, 1025), 1026, 1031, 1036, 1039
    for command in (*leases, notifies, pipe_size, hints, newer, 9999):
        assert control(command) == REFUSE, command
