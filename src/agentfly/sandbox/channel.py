"""The owner's end of the conversation with a sandbox."""

import asyncio
from typing import Any

from agentfly.sandbox import wire


class SandboxDiedError(Exception):
    """The sandbox has ended, or says what no sandbox says."""

    def __init__(self, cause: str | None, code: int | None) -> None:
        super().__init__(f"died of {cause or 'an unknown cause'}, exit code {code}")
        self.cause = cause
        self.code = code
        """The first process's exit code, negative for a signal; None if nobody told."""


class Channel:
    """Sends requests and receives answers, over a socket or two pipes.

    An answer can be waited for again after a wait that was cut off: nothing of it is lost.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._expected: int | None = None
        """Length of an answer whose header has been read, but not its body."""
        self._number = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Send a request."""
        self._number += 1
        try:
            self._writer.write(wire.pack({**message, "number": self._number}))
            await self._writer.drain()
        except ConnectionError:
            pass  # The answer that never comes tells why.

    async def answer(self) -> dict[str, Any]:
        """Wait for the answer to the last request; what answers none is passed over."""
        while (answer := await self.receive()).get("number") != self._number:
            pass
        return answer

    async def receive(self) -> dict[str, Any]:
        """Wait for a message; raise SandboxDiedError if none will come."""
        try:
            if self._expected is None:
                header = await self._reader.readexactly(wire.HEADER.size)
                self._expected = wire.HEADER.unpack(header)[0]
            if self._expected > wire.MAX_BYTES:
                raise ValueError("too long")
            body = await self._reader.readexactly(self._expected)
            self._expected = None
            answer = wire.unpack(body)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise SandboxDiedError(None, None) from error
        except (ValueError, RecursionError) as error:
            raise SandboxDiedError("nonsense", None) from error
        if isinstance(died := answer.get("died"), dict):
            raise SandboxDiedError(died.get("cause"), died.get("code"))
        return answer

    def close(self) -> None:
        """Hang up; an idle sandbox then ends by itself."""
        self._writer.close()
