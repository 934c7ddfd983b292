"""Who waits for environments: first come first served within a priority."""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agentfly.resources.loan import Loan
from agentfly.types import EnvSpec


@dataclass(eq=False, slots=True, kw_only=True)
class Waiter:
    """One chain that waits for all of its environments together."""

    specs: frozenset[EnvSpec]
    owner: str
    since: float
    priority: int
    number: int
    """The order in which they came."""
    granted: asyncio.Future[dict[EnvSpec, Loan]] = field(repr=False)

    @property
    def place(self) -> tuple[int, int]:
        """Smaller is earlier."""
        return self.priority, self.number


_Group = tuple[int, frozenset[EnvSpec]]


class Line:
    """Waiters, grouped by what they need, so that a thousand who need the same cost as one."""

    def __init__(self) -> None:
        self._groups: dict[_Group, dict[int, Waiter]] = {}

    def __iter__(self) -> Iterator[Waiter]:
        for group in self._groups.values():
            yield from group.values()

    def join(self, waiter: Waiter) -> None:
        """Stand at the end."""
        self._groups.setdefault((waiter.priority, waiter.specs), {})[waiter.number] = waiter

    def leave(self, waiter: Waiter) -> None:
        """Be served, or give up; leaving twice does nothing."""
        key = (waiter.priority, waiter.specs)
        group = self._groups.get(key, {})
        group.pop(waiter.number, None)
        if not group:
            self._groups.pop(key, None)

    def first_for(self, spec: EnvSpec) -> Waiter | None:
        """Return who is the first to need this."""
        heads = [next(iter(g.values())) for key, g in self._groups.items() if spec in key[1]]
        return min(heads, key=lambda waiter: waiter.place, default=None)

    def walk(self, visit: Callable[[Waiter], bool]) -> None:
        """Visit the waiters in order; where `visit` says no, those who need the same are passed."""
        walks = [iter(group.values()) for group in self._groups.values()]
        heads = [(next(walk), walk) for walk in walks]
        line = [(waiter.place, waiter, walk) for waiter, walk in heads]
        heapq.heapify(line)
        while line:
            _, waiter, walk = line[0]
            follower = next(walk, None) if visit(waiter) else None
            if follower is None:
                heapq.heappop(line)
            else:
                heapq.heapreplace(line, (follower.place, follower, walk))
