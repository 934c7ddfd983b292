"""One live interpreter behind some isolation: the interface that all levels share."""

from dataclasses import dataclass
from typing import Protocol

from agentfly.sandbox.channel import Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a sandboxed process ended, from a source that its code can't write to."""

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
    """The kernel refuses such boxes, however often it is asked: only a lesser level is left."""
