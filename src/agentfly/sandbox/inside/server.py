"""The fork server: one process, one thread, warm with packages, that bears and buries sandboxes.

Its owner sends requests over one socket, and gets no answers there:

    {"op": "spawn", "id": 7, "limits": {...}, "seed": 42}   with the sandbox's end of a channel
    {"op": "interrupt", "id": 7}
    {"op": "kill", "id": 7}

A sandbox speaks to the owner over its own channel, and the server adds one last message there when
the sandbox has died: {"died": {...}}. The server is the first process of a pid namespace that
holds all its sandboxes, so that they end with it, whatever they did; it ends with its socket.
"""

import gc
import json
import os
import resource
import selectors
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from agentfly.sandbox import wire
from agentfly.sandbox.inside import birth, kernel, stage
from agentfly.sandbox.inside.memory import TICK_SECONDS, MemoryWatch
from agentfly.sandbox.interpreter import main as interpreter
from agentfly.sandbox.limits import SandboxLimits

_LARGEST_REQUEST = 1 << 16
_SPARES = 2
"""Sandboxes that are born before they are asked for, so that starting one takes no time."""
_FIRST_UID = 0x7000_0000
"""Uids that no system gives to people; each live sandbox of a server gets its own above it."""
_UIDS_PER_SERVER = 4096


@dataclass(slots=True, kw_only=True)
class _Sandbox:
    pid: int
    handle: int
    """A pidfd, which tells of its end and never means another process."""
    limits: SandboxLimits
    uid: int | None
    waiting_room: socket.socket
    """Where it waits for its channel."""
    number: int | None = None
    """By which the owner calls it; None for a spare."""
    channel: socket.socket | None = None
    cause: str | None = None
    """Why the server itself killed it."""


class ForkServer:
    """Holds the sandboxes that are alive, and a few spare ones."""

    def __init__(
        self, control: socket.socket, proc: stage.Proc, *, outer_pid: int, own_uids: bool
    ) -> None:
        self._control = control
        self._proc = proc.descriptor
        self._namespace = os.open("self/ns/pid", os.O_RDONLY, dir_fd=self._proc)
        self._uids = _uids_of(outer_pid) if own_uids else []
        self._watch = MemoryWatch(self._proc) if proc.own else None
        self._address_space = self._own_address_space()
        self._living: dict[int, _Sandbox] = {}
        """By pid, spares included."""
        self._numbered: dict[int, _Sandbox] = {}
        self._spares: list[_Sandbox] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serve until the owner goes away."""
        while True:
            events = self._selector.select(TICK_SECONDS if self._living else None)
            for key, _ in events:
                if key.data is not None:
                    self._bury(key.data)
                elif not self._hear():
                    return
            self._end_the_greedy()

    def _hear(self) -> bool:
        """Do what the owner asks; False once it is gone."""
        data, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 1)
        if not data:
            return False
        request: dict[str, Any] = json.loads(data)
        if request["op"] == "spawn":
            self._spawn(request, socket.socket(fileno=descriptors[0]))
        elif (sandbox := self._numbered.get(request["id"])) is not None:
            stop = signal.SIGINT if request["op"] == "interrupt" else signal.SIGKILL
            signal.pidfd_send_signal(sandbox.handle, stop)
        return True

    def _spawn(self, request: dict[str, Any], channel: socket.socket) -> None:
        """Give a channel to a spare sandbox of these limits, and bear others in its place."""
        limits = SandboxLimits(**request["limits"])
        try:
            sandbox = self._spare(limits)
            seed = str(request["seed"]).encode()
            socket.send_fds(sandbox.waiting_room, [seed], [channel.fileno()])
        except OSError as error:
            channel.send(wire.pack({"failed": f"no process could be forked: {error}"}))
            channel.close()
            return
        sandbox.number, sandbox.channel = request["id"], channel
        self._numbered[request["id"]] = sandbox
        with suppress(OSError):
            while len(self._spares) < _SPARES:
                self._spares.append(self._bear(limits))

    def _spare(self, limits: SandboxLimits) -> _Sandbox:
        for spare in self._spares:
            if spare.limits == limits:
                self._spares.remove(spare)
                return spare
        while self._spares:  # The owner's wishes have changed.
            signal.pidfd_send_signal(self._spares.pop().handle, signal.SIGKILL)
        return self._bear(limits)

    def _bear(self, limits: SandboxLimits) -> _Sandbox:
        """Fork into a new pid namespace, while this process stays in its own."""
        uid = self._uids.pop() if self._uids else None
        ours, theirs = socket.socketpair()
        kernel.unshare(kernel.CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                kernel.setns(self._namespace, kernel.CLONE_NEWPID)
        if pid == 0:
            self._live(theirs, limits, uid)
        theirs.close()
        handle = os.pidfd_open(pid)
        sandbox = _Sandbox(pid=pid, handle=handle, limits=limits, uid=uid, waiting_room=ours)
        self._living[pid] = sandbox
        self._selector.register(handle, selectors.EVENT_READ, sandbox)
        return sandbox

    def _live(
        self, waiting_room: socket.socket, limits: SandboxLimits, uid: int | None
    ) -> NoReturn:
        """Be the sandbox, until its end."""
        cradle = birth.Cradle(proc=self._proc, uid=uid, address_space=self._address_space)
        birth.keep_only(waiting_room.detach(), self._proc)
        ready: interpreter.Interpreter | str
        try:
            birth.become_sandbox(limits, cradle)
            gc.enable()
            ready = interpreter.Interpreter(limits)
        except BaseException as error:  # noqa: BLE001 - told to the owner, whatever it is
            ready = str(error)
        seed = birth.await_channel()
        if isinstance(ready, str):
            os.write(birth.CHANNEL, wire.pack({"failed": ready}))
            os._exit(1)
        interpreter.seed_generators(seed)
        interpreter.serve(ready, birth.CHANNEL, birth.CHANNEL)
        os._exit(0)

    def _bury(self, sandbox: _Sandbox) -> None:
        _, status, used = os.wait4(sandbox.pid, 0)
        self._selector.unregister(sandbox.handle)
        os.close(sandbox.handle)
        sandbox.waiting_room.close()
        del self._living[sandbox.pid]
        if sandbox.uid is not None:
            self._uids.insert(0, sandbox.uid)
        if sandbox in self._spares:
            self._spares.remove(sandbox)
        if sandbox.channel is not None and sandbox.number is not None:
            del self._numbered[sandbox.number]
            died = {"code": os.waitstatus_to_exitcode(status), "cause": _cause(sandbox, used)}
            _say_last(sandbox.channel, {"died": died})

    def _end_the_greedy(self) -> None:
        if self._watch is None:
            return
        limits = {pid: sandbox.limits.memory_mb for pid, sandbox in self._living.items()}
        for pid in self._watch.over_limit(limits):
            self._living[pid].cause = "memory"
            signal.pidfd_send_signal(self._living[pid].handle, signal.SIGKILL)

    def _own_address_space(self) -> int:
        descriptor = os.open("self/statm", os.O_RDONLY, dir_fd=self._proc)
        with os.fdopen(descriptor, encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()


def _cause(sandbox: _Sandbox, used: resource.struct_rusage) -> str | None:
    seconds = used.ru_utime + used.ru_stime
    return sandbox.cause or ("cpu" if seconds >= sandbox.limits.cpu_seconds - 0.1 else None)


def _say_last(channel: socket.socket, message: dict[str, Any]) -> None:
    """Tell the owner; if it has gone or its channel is full, it sees only the channel's end."""
    with suppress(OSError):
        channel.setblocking(False)  # noqa: FBT003 - takes no keywords
        channel.send(wire.pack(message))
    channel.close()


def _uids_of(outer_pid: int) -> list[int]:
    """Return uids for this server's sandboxes, which no other server of the machine gives out."""
    first = _FIRST_UID + (outer_pid % (1 << 16)) * _UIDS_PER_SERVER
    return list(range(first, first + _UIDS_PER_SERVER))
