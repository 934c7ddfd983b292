"""What a worker process and its owner say to each other, over one socket.

    owner                                    worker
    Load(main, spec)                 ──►     makes the environment
                                     ◄──     Answer(value={"reset": False, "step": False, ...})
    Request(name="step", args=...)   ──►     calls it
                                     ◄──     Answer(value=Step(...), memory_mb=61.2)

A frame is 8 bytes of length, then that many bytes of pickle. Both sides run the user's own code,
so pickle gives away nothing; code that is not to be trusted belongs in a sandbox.
"""

import pickle
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 1 << 30
"""More than any observation; a longer frame is rubbish."""
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
    """What came of a request."""

    value: Any = None
    error: Exception | None = None
    memory_mb: float = 0.0
    """What the worker takes now."""


def pack(message: object) -> bytes:
    """Make a frame; raise whatever pickle does of what can't be sent."""
    body = pickle.dumps(message)
    return len(body).to_bytes(_LENGTH) + body


class Channel:
    """Whole frames over a socket, under deadlines of `time.monotonic`."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, frame: bytes, deadline: float | None = None) -> None:
        """Send a frame; raise TimeoutError at the deadline, OSError if nobody is there."""
        self._wait_until(deadline)
        self._socket.sendall(frame)

    def receive(self, deadline: float | None = None) -> Any:
        """Receive a message; raise TimeoutError, EOFError if the other side has ended."""
        length = int.from_bytes(self._exactly(_LENGTH, deadline))
        if length > MAX_BYTES:
            raise pickle.UnpicklingError(f"a frame of {length} bytes")
        return pickle.loads(self._exactly(length, deadline))

    def close(self) -> None:
        """Hang up; whoever waits on the other side sees the end."""
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
