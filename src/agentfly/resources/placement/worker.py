"""The program of a worker process: one environment, which answers one request at a time.

    owner                                    worker
    Load(main, spec)                 ──►     makes the environment
                                     ◄──     Answer(value={"reset": False, "step": False, ...})
    Request(name="step", args=...)   ──►     calls it
                                     ◄──     Answer(value=Step(...), memory_mb=61.2)

A frame is 8 bytes of length, then that many bytes of pickle, over one socket. Both sides run the
user's own code, so pickle gives away nothing; untrusted code belongs in a sandbox.
"""

import asyncio
import inspect
import os
import pickle
import runpy
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

from agentfly.resources.placement.instance import methods_of

MAX_BYTES = 1 << 30
"""Maximum size of a frame, more than any observation; a longer one is invalid."""
_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The first frame: which environment to make."""

    main: str | None
    """The owner's main script, if the environment is defined in it."""
    spec: bytes
    """Pickled on its own: it can be read only once the main script is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A method to call, or another attribute to read."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a request."""

    value: Any = None
    error: Exception | None = None
    memory_mb: float = 0.0
    """Memory that the worker takes now."""


def pack(message: object) -> bytes:
    """Return a frame; raise what pickle raises if the message can't be sent."""
    body = pickle.dumps(message)
    return len(body).to_bytes(_LENGTH) + body


class Channel:
    """Whole frames over a socket, under deadlines of `time.monotonic`."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, frame: bytes, deadline: float | None = None) -> None:
        """Send a frame; raise TimeoutError at the deadline, OSError if the other side has ended."""
        self._wait_until(deadline)
        self._socket.sendall(frame)

    def receive(self, deadline: float | None = None) -> Any:
        """Receive a message; raise TimeoutError, EOFError if the other side has ended."""
        length = int.from_bytes(self._exactly(_LENGTH, deadline))
        if length > MAX_BYTES:
            raise pickle.UnpicklingError(f"a frame of {length} bytes")
        return pickle.loads(self._exactly(length, deadline))

    def close(self) -> None:
        """Close the socket; the other side sees the end."""
        self._socket.close()

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._wait_until(deadline)
            part = self._socket.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise EOFError("the other side has ended")
            parts += part
        return bytes(parts)

    def _wait_until(self, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


M = TypeVar("M")

LOADING_VARIABLE = "AGENTFLY_LOADING_MAIN"
"""Set while the owner's script is loaded, in which nothing must be started again."""


def main() -> None:
    """Make the environment that the first frame names, and serve it to the end.

    The owner gives a socket for standard input, and closes it, or dies, to end the worker.
    """
    worker = Worker(Channel(_taken_over_stdin()))
    worker.answer(worker.make, worker.channel.receive())
    while True:
        try:
            request = worker.channel.receive()
        except EOFError:
            return
        worker.answer(worker.do, request)


def _taken_over_stdin() -> socket.socket:
    """Keep the socket to ourselves: an environment may read its input, or print."""
    end = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return end


class Worker:
    """One environment and the channel to its owner."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._loop = asyncio.new_event_loop()
        self._environment: Any = None
        self._methods: dict[str, bool] = {}

    def make(self, load: Load) -> dict[str, bool]:
        """Make it; return its methods, and which of them are async."""
        if load.main is not None:
            _load_main(load.main)
        self._environment = pickle.loads(load.spec).make()
        self._methods = methods_of(self._environment)
        return self._methods

    def do(self, request: Request) -> Any:
        """Call a method, sync or async, or read another attribute."""
        value = getattr(self._environment, request.name)
        if request.name in self._methods:
            value = value(*request.args, **request.kwargs)
        return self._loop.run_until_complete(value) if inspect.iscoroutine(value) else value

    def answer(self, act: Callable[[M], Any], message: M) -> None:
        """Act, and send what came of it or why nothing can be sent."""
        try:
            frame = pack(Answer(value=act(message), memory_mb=memory_mb()))
        except BaseException as error:  # noqa: BLE001 - sent to the owner, who raises it
            frame = pack(Answer(error=portable(error), memory_mb=memory_mb()))
        self.channel.send(frame)


def portable(error: BaseException) -> Exception:
    """Return the error itself if it survives the way to the owner, else one with its words."""
    if isinstance(error, Exception):
        error.add_note("".join(traceback.format_exception(error)))
        try:
            copy = pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - an exception class may do anything when it is copied
            copy = None
        if type(copy) is type(error):
            return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _load_main(path: str) -> None:
    """Load the owner's script, in which the environment is defined, without running it as one."""
    os.environ[LOADING_VARIABLE] = path
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    module.__dict__.update(runpy.run_path(path, run_name="__agentfly_main__"))
    del os.environ[LOADING_VARIABLE]


def memory_mb() -> float:
    """Return the memory that this process holds now; 0 without /proc."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - after every single call
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0
