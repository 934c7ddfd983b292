"""The queue of waiters for environments: first come first served within a priority."""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agentfly.resources.pool import InstancePool, Lease
from agentfly.types import EnvSpec


@dataclass(eq=False, slots=True, kw_only=True)
class Waiter:
    """One chain that waits for all of its environments together."""

    pools: tuple[InstancePool, ...]
    """The kinds that it needs, one instance of each."""
    owner: str
    since: float
    priority: int
    number: int
    """The order in which they came."""
    granted: asyncio.Future[dict[EnvSpec, Lease]] = field(repr=False)
    group: "Group" = field(init=False)

    def __post_init__(self) -> None:
        self.group = self.priority, frozenset(pool.spec for pool in self.pools)

    @property
    def specs(self) -> frozenset[EnvSpec]:
        """The kinds that it needs."""
        return self.group[1]

    @property
    def is_done(self) -> bool:
        """Whether it is served or refused.

        A moment may pass before it leaves the queue: nothing must be lent to it in that time.
        """
        return self.granted.done()

    def last_progress(self, now: float) -> float:
        """Return when what it misses was last lent to anyone, or when it came to wait.

        If all is there but kept for others, it waits for these, and they have their own patience.
        """
        missing = [pool.lent_at for pool in self.pools if not pool.warm]
        return max(self.since, min(missing, default=now))

    @property
    def place(self) -> tuple[int, int]:
        """Smaller is earlier."""
        return self.priority, self.number


Group = tuple[int, frozenset[EnvSpec]]
"""Key of the waiters of one priority that need the same kinds."""


class WaitQueue:
    """Waiters, grouped by what they need, so that a thousand who need the same cost as one."""

    def __init__(self) -> None:
        self._groups: dict[Group, dict[int, Waiter]] = {}

    def __iter__(self) -> Iterator[Waiter]:
        for group in self._groups.values():
            yield from group.values()

    def join(self, waiter: Waiter) -> None:
        """Add a waiter at the end."""
        self._groups.setdefault(waiter.group, {})[waiter.number] = waiter

    def leave(self, waiter: Waiter) -> None:
        """Remove a waiter; removing it twice does nothing."""
        group = self._groups.get(waiter.group, {})
        group.pop(waiter.number, None)
        if not group:
            self._groups.pop(waiter.group, None)

    def wanted(self) -> set[EnvSpec]:
        """Return all kinds that are waited for."""
        return {spec for _, specs in self._groups for spec in specs}

    def first_for(self, spec: EnvSpec) -> Waiter | None:
        """Return the first that waits for this."""
        groups = [group for key, group in self._groups.items() if spec in key[1]]
        waiting = [next((w for w in g.values() if not w.is_done), None) for g in groups]
        firsts = [waiter for waiter in waiting if waiter is not None]
        return min(firsts, key=lambda waiter: waiter.place, default=None)

    def walk(self, visit: Callable[[Waiter], bool]) -> None:
        """Visit the waiters in order; where `visit` returns False, skip those who need the same."""
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
