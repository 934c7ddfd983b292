"""The fork server: a process of one thread, with packages imported, that forks sandboxes.

Its owner sends requests over one socket:

    {"op": "spawn", "id": 7, "limits": {...}, "seed": 42}   with the sandbox's end of a channel
    {"op": "interrupt", "id": 7}
    {"op": "kill", "id": 7}

and reads there how each sandbox ended: {"id": 7, "code": 0, "cause": null}. A sandbox can't forge
that report: it has only its own channel, over which it answers its owner. The server is the first
process of a pid namespace that holds all its sandboxes, so that they always end with it;
it ends with its socket.
"""

import errno
import gc
import json
import os
import resource
import selectors
import signal
import socket
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from agentfly.sandbox import framing
from agentfly.sandbox.inside import confine, kernel, open_files, rootfs, seccomp
from agentfly.sandbox.inside.cgroup import Group, Groups
from agentfly.sandbox.inside.memory_watch import TICK_SECONDS, MemoryWatch
from agentfly.sandbox.interpreter import main as interpreter
from agentfly.sandbox.limits import SandboxLimits

_LARGEST_REQUEST = 1 << 16
_SPARES = 2
"""Sandboxes forked before they are asked for, so that starting one takes no time."""
_FIRST_UID = 0x7000_0000
"""Uids that no system gives to people; each live sandbox of a server gets its own above it."""
_UIDS_PER_SERVER = 4096
_FILES_PER_SPARE = 2
"""Open files of the server for each: a pidfd and a waiting room, which is closed on use."""
_FILES_IN_PASSING = 8
"""Open files that it needs for a moment: a request's, a new sandbox's, the memory watch's."""
_OVERHEAD_MB = 32
"""Memory of the kernel for a sandbox's processes, such as stacks and page tables."""


@dataclass(slots=True, kw_only=True)
class _Sandbox:
    pid: int
    handle: int
    """A pidfd: readable once the process has ended, and never of another process."""
    limits: SandboxLimits
    uid: int | None
    group: Group | None
    waiting_room: socket.socket
    """The socket over which it receives its channel."""
    number: int | None = None
    """The owner's number for it; None for a spare."""
    cause: str | None = None
    """Why the server itself killed it."""


class ForkServer:
    """The sandboxes that are alive, and a few spare ones."""

    def __init__(
        self,
        control: socket.socket,
        proc: rootfs.Proc,
        *,
        outer_pid: int,
        own_uids: bool,
        groups: Groups | None,
    ) -> None:
        self._control = control
        self._proc = proc.descriptor
        self._namespace = os.open("self/ns/pid", os.O_RDONLY, dir_fd=self._proc)
        self._uids = _uids_of(outer_pid) if own_uids else []
        self._watch = MemoryWatch(self._proc)
        self._watches = proc.own
        self._groups = groups
        self._address_space = self._own_address_space()
        self._living: dict[int, _Sandbox] = {}
        """All live sandboxes by pid, spares included."""
        self._numbered: dict[int, _Sandbox] = {}
        self._spares: list[_Sandbox] = []
        self._unsent: deque[bytes] = deque()
        """Reports for which the owner's queue had no room yet."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._most, self._because = self._capacity()
        seccomp.assembled(kernel.machine())  # Here, so that no sandbox has to.

    def rehearse(self) -> None:
        """Confine a process as every sandbox is; raise what keeps this machine from it."""
        reading, writing = os.pipe()
        with os.fdopen(reading, encoding="utf-8") as report:
            pid = self._fork_into_namespace()
            if pid == 0:
                self._confine_and_report(writing)
            os.close(writing)
            said = report.read()
        os.waitpid(pid, 0)
        if said:
            number, _, reason = said.partition(" ")
            raise OSError(int(number), reason)

    def serve(self) -> None:
        """Serve until the owner goes away."""
        while True:
            events = self._selector.select(TICK_SECONDS if self._living or self._unsent else None)
            for key, _ in events:
                if key.data is not None:
                    self._reap(key.data)
                elif not self._handle_request():
                    return
            self._kill_over_limit()
            self._send_reports()

    def _handle_request(self) -> bool:
        """Do what the owner asks; False once it is gone."""
        data, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 1)
        if not data:
            return False
        request: dict[str, Any] = json.loads(data)
        if request["op"] == "spawn":
            # The kernel drops a descriptor where the machine has none left; its owner sees that.
            for descriptor in descriptors:
                self._spawn(request, socket.socket(fileno=descriptor))
        elif (sandbox := self._numbered.get(request["id"])) is not None:
            stop = signal.SIGINT if request["op"] == "interrupt" else signal.SIGKILL
            signal.pidfd_send_signal(sandbox.handle, stop)
        return True

    def _spawn(self, request: dict[str, Any], channel: socket.socket) -> None:
        """Give a channel to a spare sandbox of these limits, and fork others in its place."""
        if len(self._numbered) >= self._most:
            _refuse(channel, {"failed": self._because})
            return
        limits = SandboxLimits(**request["limits"])
        try:
            sandbox = self._spare(limits)
            seed = str(request["seed"]).encode()
            socket.send_fds(sandbox.waiting_room, [seed], [channel.fileno()])
        except OSError as error:
            reason = open_files.explain(error) or f"no sandbox could be forked: {error}"
            _refuse(channel, {"failed": reason})
            return
        sandbox.waiting_room.close()
        channel.close()
        sandbox.number = request["id"]
        self._numbered[request["id"]] = sandbox
        with suppress(OSError):
            while len(self._spares) < _SPARES:
                self._spares.append(self._fork_sandbox(limits))

    def _spare(self, limits: SandboxLimits) -> _Sandbox:
        for spare in self._spares:
            if spare.limits == limits:
                self._spares.remove(spare)
                return spare
        while self._spares:  # The owner asks for other limits now.
            signal.pidfd_send_signal(self._spares.pop().handle, signal.SIGKILL)
        return self._fork_sandbox(limits)

    def _fork_sandbox(self, limits: SandboxLimits) -> _Sandbox:
        """Fork into a new pid namespace; undo everything on an error."""
        with ExitStack() as undo:
            uid = self._uids.pop() if self._uids else None
            undo.callback(self._take_back, uid)
            group = self._groups.open(self._hard_limit(limits)) if self._groups else None
            undo.callback(self._leave, group)
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                pid = self._fork_into_namespace()
                if pid == 0:
                    self._run_in_fork(theirs, limits, uid, group)
                handle = _handle_on(pid)
            undo.pop_all()
        sandbox = _Sandbox(
            pid=pid, handle=handle, limits=limits, uid=uid, group=group, waiting_room=ours
        )
        self._living[pid] = sandbox
        self._selector.register(handle, selectors.EVENT_READ, sandbox)
        return sandbox

    def _hard_limit(self, limits: SandboxLimits) -> int:
        """Return bytes: all that the limits allow, and once what is shared with this server."""
        allowed = limits.memory_mb + limits.disk_mb + limits.output_mb + _OVERHEAD_MB
        return (allowed << 20) + (self._watch.inherited << 10)

    def _fork_into_namespace(self) -> int:
        """Fork into a new pid namespace, while this process stays in its own."""
        kernel.unshare(kernel.CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                kernel.setns(self._namespace, kernel.CLONE_NEWPID)
        return pid

    def _take_back(self, uid: int | None) -> None:
        if uid is not None:
            self._uids.insert(0, uid)

    def _leave(self, group: Group | None) -> None:
        if self._groups is not None and group is not None:
            self._groups.close(group)

    def _run_in_fork(
        self,
        waiting_room: socket.socket,
        limits: SandboxLimits,
        uid: int | None,
        group: Group | None,
    ) -> NoReturn:
        """Run as the sandbox until its end, and never return to the server's loop."""
        try:
            if group is not None:
                group.enter()
            confine.keep_only(waiting_room.detach(), self._proc)
            self._serve_one(limits, uid)
        finally:
            os._exit(1)

    def _confine_and_report(self, writing: int) -> NoReturn:
        try:
            confine.become_sandbox(
                SandboxLimits(), self._spawn_context(next(iter(self._uids), None))
            )
        except Exception as error:  # noqa: BLE001 - any error is reported to the server
            number = error.errno if isinstance(error, OSError) else None
            reason = error.strerror if isinstance(error, OSError) else str(error)
            os.write(writing, f"{number or errno.EPERM} {reason}".encode())
        finally:
            os._exit(0)

    def _spawn_context(self, uid: int | None) -> confine.SpawnContext:
        return confine.SpawnContext(proc=self._proc, uid=uid, address_space=self._address_space)

    def _serve_one(self, limits: SandboxLimits, uid: int | None) -> None:
        ready: interpreter.Interpreter | str
        try:
            confine.become_sandbox(limits, self._spawn_context(uid))
            gc.enable()
            ready = interpreter.Interpreter(limits)
        except BaseException as error:  # noqa: BLE001 - any error is sent to the owner
            ready = str(error)
        seed = confine.await_channel()
        if isinstance(ready, str):
            os.write(confine.CHANNEL, framing.pack({"failed": ready}))
            return
        interpreter.seed_generators(seed)
        interpreter.serve(ready, confine.CHANNEL, confine.CHANNEL)
        os._exit(0)

    def _reap(self, sandbox: _Sandbox) -> None:
        _, status, used = os.wait4(sandbox.pid, 0)
        self._selector.unregister(sandbox.handle)
        os.close(sandbox.handle)
        sandbox.waiting_room.close()
        del self._living[sandbox.pid]
        self._take_back(sandbox.uid)
        if sandbox.group is not None and sandbox.group.was_exceeded():
            sandbox.cause = "memory"
        self._leave(sandbox.group)
        if sandbox in self._spares:
            self._spares.remove(sandbox)
        if sandbox.number is not None:
            del self._numbered[sandbox.number]
            code, cause = os.waitstatus_to_exitcode(status), _cause(sandbox, used)
            report = {"id": sandbox.number, "code": code, "cause": cause}
            self._unsent.append(json.dumps(report).encode())

    def _send_reports(self) -> None:
        with suppress(OSError):  # A full queue is tried again; an owner that has gone needs none.
            while self._unsent:
                self._control.send(self._unsent[0], socket.MSG_DONTWAIT)
                self._unsent.popleft()

    def _kill_over_limit(self) -> None:
        if not self._watches:
            return
        limits = {pid: sandbox.limits.memory_mb for pid, sandbox in self._living.items()}
        for pid in self._watch.over_limit(limits):
            self._living[pid].cause = "memory"
            signal.pidfd_send_signal(self._living[pid].handle, signal.SIGKILL)

    def _capacity(self) -> tuple[int, str]:
        """Return how many sandboxes may be alive, and the refusal for the owner of one more.

        Spares come on top, and as many again that are dying because other limits are wanted.
        """
        limit, spares = open_files.limit(), 2 * _SPARES
        free = limit - self._open_now() - _FILES_IN_PASSING
        most = free - spares * _FILES_PER_SPARE
        if limit < confine.OPEN_FILES or most < 1:
            raise RuntimeError(
                f"a limit of {limit} open files is too low: sandboxes need at least "
                f"{confine.OPEN_FILES}, and one more for each that is alive"
            )
        if self._uids and len(self._uids) - spares < most:
            most = len(self._uids) - spares
            return most, f"{most} sandboxes are alive, the most that a fork server has uids for"
        said = f"{most} sandboxes are alive, as many as the fork server's limit of {limit} open"
        return most, f"{said} files allows: {open_files.WAY_OUT}"

    def _open_now(self) -> int:
        listing = os.open("self/fd", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._proc)
        try:
            return len(os.listdir(listing))  # noqa: PTH208 - by descriptor
        finally:
            os.close(listing)

    def _own_address_space(self) -> int:
        descriptor = os.open("self/statm", os.O_RDONLY, dir_fd=self._proc)
        with os.fdopen(descriptor, encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()


def _handle_on(pid: int) -> int:
    """Open a pidfd of a child; end the child if that fails."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _cause(sandbox: _Sandbox, used: resource.struct_rusage) -> str | None:
    seconds = used.ru_utime + used.ru_stime
    return sandbox.cause or ("cpu" if seconds >= sandbox.limits.cpu_seconds - 0.1 else None)


def _refuse(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send an owner, if it is still there, the reason why it gets no sandbox."""
    with suppress(OSError):
        channel.setblocking(False)  # noqa: FBT003 - takes no keywords
        channel.send(framing.pack(message))
    channel.close()


def _uids_of(outer_pid: int) -> list[int]:
    """Return uids for this server's sandboxes, which no other server of the machine gives out."""
    first = _FIRST_UID + (outer_pid % (1 << 16)) * _UIDS_PER_SERVER
    return list(range(first, first + _UIDS_PER_SERVER))
