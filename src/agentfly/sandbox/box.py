"""One live interpreter behind some isolation: what the levels have in common."""

from typing import Protocol

from agentfly.sandbox.channel import Channel


class Box(Protocol):
    """A sandboxed process that answers over a channel."""

    @property
    def channel(self) -> Channel:
        """Where it answers."""

    @property
    def announces_its_end(self) -> bool:
        """Whether somebody tells of its end; where nobody did, that somebody has crashed."""

    async def interrupt(self) -> None:
        """Ask the running cell to stop, if this level can."""

    async def close(self) -> None:
        """End it and everything in it; closing twice does nothing."""


class BoxFailedError(Exception):
    """No box could be made: the machinery is at fault, not the code."""


class UnsupportedError(BoxFailedError):
    """The kernel refuses such boxes, however often it is asked: only a lesser level is left."""
