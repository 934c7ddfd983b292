"""An environment whose calls wait for those of other chains."""

import asyncio

CHAINS = 3
_all_there = asyncio.Barrier(CHAINS)
"""Shared by the instances of one actor."""


class MeetingRoom:
    def __init__(self) -> None:
        self.meetings = 0

    async def meet(self) -> None:
        """Return when as many chains as there are instances have called it."""
        await _all_there.wait()
        self.meetings += 1

    async def count(self) -> int:
        """Return how often this instance has met the others."""
        return self.meetings

    def close(self) -> None:
        pass
