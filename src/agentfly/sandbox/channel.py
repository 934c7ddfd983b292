"""The owner's end of the connection to a sandbox."""

import asyncio
from enum import StrEnum
from typing import Any

from agentfly.sandbox import framing


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
