"""The interface that all isolation levels share: a box, its channel, and how it ended."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from agentfly.sandbox import framing


class Isolation(StrEnum):
    """The level of isolation between foreign code and this machine."""

    WARM = "warm"
    """A fork server with namespaces, Landlock, seccomp, limits and a quota: the default."""
    WARM_WITHOUT_LANDLOCK = "warm-without-landlock"
    """The same on a kernel without Landlock: one layer less around the files."""
    BUBBLEWRAP = "bubblewrap"
    """`bwrap`, with a new interpreter in each: the fallback where `warm` is not available."""
    DOCKER = "docker"
    """A container for each sandbox, which needs a daemon; only by choice."""
    PODMAN = "podman"
    """The same without a daemon; only by choice."""
    UNSAFE = "unsafe"
    """None at all: only for code that you would run yourself."""


class Fault(StrEnum):
    """The reason why there is no answer."""

    CLOSED = "closed"
    """The connection ended: the process did, or closed it."""
    NONSENSE = "nonsense"
    """Something arrived that is not the answer to the last request."""
    TIME = "time"
    """Nothing arrived in time."""


class ChannelError(Exception):
    """The sandbox gave no answer, and can't be used any more."""

    def __init__(self, fault: Fault, reason: str = "") -> None:
        super().__init__(f"{fault}: {reason}" if reason else str(fault))
        self.fault = fault


class Channel:
    """Sends requests and receives answers, over a socket or two pipes.

    An answer can be waited for again after a wait that was cut off: nothing of it is lost.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._expected: int | None = None
        """Length of a message whose header has been read, but not its body."""
        self.number = 0
        """Number of the last request."""

    def send(self, request: dict[str, Any]) -> None:
        """Send a request under the next number, without waiting until it is read."""
        self.number += 1
        self._writer.write(framing.pack({**request, "number": self.number}))

    def interrupt(self, number: int) -> None:
        """Name the request that the next SIGINT is meant for; one that is done ignores it."""
        self._writer.write(framing.pack({"op": "interrupt", "number": number}))

    async def receive(self, max_bytes: int) -> bytes:
        """Wait for a message and return its bytes; raise ChannelError if none can come."""
        try:
            if self._expected is None:
                header = await self._reader.readexactly(framing.HEADER.size)
                self._expected = framing.HEADER.unpack(header)[0]
            if self._expected > max_bytes:
                reason = f"{self._expected} bytes announced, at most {max_bytes} allowed"
                raise ChannelError(Fault.NONSENSE, reason)
            body = await self._reader.readexactly(self._expected)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ChannelError(Fault.CLOSED) from error
        self._expected = None
        return body

    async def greeting(self) -> dict[str, Any]:
        """Wait for the first message, which is sent before any foreign code runs."""
        try:
            return framing.unpack(await self.receive(framing.MAX_HEAD_BYTES))
        except framing.NonsenseError as error:
            raise ChannelError(Fault.NONSENSE, str(error)) from error

    def close(self) -> None:
        """Disconnect at once, and drop what was not read; an idle sandbox then ends by itself."""
        if not self._writer.is_closing():  # A pipe's can't be aborted twice.
            self._writer.transport.abort()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a sandboxed process, from a source that its code can't write to."""

    code: int | None = None
    """Exit code of the first process, negative for a signal; None if it is not known."""
    cause: str | None = None
    """The limit for which it was killed: "memory" or "cpu"."""


class Box(Protocol):
    """A sandboxed process that answers over a channel."""

    @property
    def channel(self) -> Channel:
        """Connection to the interpreter. Everything that arrives there may be forged."""

    async def interrupt(self) -> None:
        """Interrupt the cell of the last request, if this level can."""

    async def end(self) -> Ending:
        """Kill it, wait for its end, and return how it ended.

        Raises:
            BoxFailedError: It did not end by its own doing, nor by this call: its server has
                crashed, or it was killed at the end of its lifetime.
        """

    async def close(self) -> None:
        """Kill it and everything in it; closing twice does nothing."""


class BoxFailedError(Exception):
    """No box could be made or kept: the machinery is at fault, not the code."""


class UnsupportedError(BoxFailedError):
    """The kernel does not allow such boxes, so retrying is useless: use a lesser level."""
