"""Decide what is lent, made and given up, in one pass along the queue of waiters.

A chain takes all it needs at once or nothing, so no chain holds instances while it waits. Those
behind must not take away, one after another, what the first one waits for. So for the first waiter
of each priority, if it can't be served, everything that can serve it is kept:

- of each kind that it needs one instance, if it is warm or on its way to be;
- for each kind that is missing a place among `max_instances`, and room in the budget. Where room
  is missing, warm instances are given up for it as soon as they make enough; until then every
  instance that takes of what is short could make room, so none of them is lent.

Those behind may take what is left, in their order. Nothing is kept for them: each of them will be
the first.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from agentfly.resources.pool import InstancePool, Member
from agentfly.resources.pooling import Budget, Cost
from agentfly.resources.queue import Waiter, WaitQueue


@dataclass(slots=True, kw_only=True)
class Allocation:
    """The decisions of one pass."""

    queue: WaitQueue
    pools: Collection[InstancePool]
    budget: Budget
    make: Callable[[InstancePool], None]
    retire: Callable[[InstancePool, Member, str | None], object]
    grant: Callable[[Waiter], None]
    _firsts: dict[int, Waiter] = field(default_factory=dict)
    """The first of each priority that can't be served."""
    _looked_at: set[InstancePool] = field(default_factory=set)
    _kept: Counter[InstancePool] = field(default_factory=Counter)
    """Number of reserved instances among those that are warm, or about to be."""
    _planned: Counter[InstancePool] = field(default_factory=Counter)
    """Number of instances to make as soon as there is a place and room."""
    _promised: Cost = field(default_factory=Cost)
    """The room for what is planned."""

    def run(self) -> None:
        """Lend what can be lent; then begin to make what is missing, in the same order."""
        gone: list[Waiter] = []
        self.queue.walk(lambda waiter: self._lend(waiter, gone))
        for waiter in gone:
            self.queue.leave(waiter)
        if any(map(self._has_place, self._looked_at)):
            self.queue.walk(self._provide)
        self._top_up()

    def _lend(self, waiter: Waiter, gone: list[Waiter]) -> bool:
        """Serve a waiter, if it can be; return whether others that need the same may be served."""
        if not waiter.is_done:
            for pool in waiter.pools:
                self._retire_broken(pool)
            if not all(self._can_be_lent(pool) for pool in waiter.pools):
                if self._firsts.setdefault(waiter.priority, waiter) is waiter:
                    self._keep_for(waiter.pools)
                return False
            self.grant(waiter)
        gone.append(waiter)
        return True

    def _keep_for(self, pools: Sequence[InstancePool]) -> None:
        """Keep everything that can serve a waiter."""
        missing = self._keep_what_there_is(pools)
        if to_make := [pool for pool in missing if self._has_place(pool)]:
            self._make_room(_cost_of(to_make))
            self._make(to_make)

    def _keep_what_there_is(self, pools: Sequence[InstancePool]) -> list[InstancePool]:
        missing = self._missing(pools)
        self._kept.update(pool for pool in pools if pool not in missing)
        return missing

    def _provide(self, waiter: Waiter) -> bool:
        """Make what is missing for one behind, if that is all it waits for."""
        if self._firsts.get(waiter.priority) is waiter:
            return True
        missing = self._missing(waiter.pools)
        if not all(self._has_place(pool) for pool in missing):
            return False
        if missing and not self._make_room(_cost_of(missing)):
            return False
        self._keep_what_there_is(waiter.pools)
        self._make(missing)
        return True

    def _missing(self, pools: Sequence[InstancePool]) -> list[InstancePool]:
        return [pool for pool in pools if pool.supply <= self._kept[pool]]

    def _top_up(self) -> None:
        """Make what is missing to the warm minimum, with what no waiter needs."""
        for pool in self.pools:
            while (
                pool.can_be_made
                and pool.supply - self._kept[pool] < pool.pooling.min_warm
                and self._has_place(pool)
                and self._make_now(pool)
            ):
                pass

    @property
    def _room(self) -> Cost:
        """The budget that is free or about to be, less what is promised; negative where short."""
        return self.budget.free + self.budget.leaving - self._promised

    def _can_be_lent(self, pool: InstancePool) -> bool:
        return len(pool.warm) > self._kept[pool] and not self._could_make_room(pool)

    def _could_make_room(self, pool: InstancePool) -> bool:
        """Return whether somebody for whom room is kept is short of what an instance takes."""
        return bool(self._promised) and pool.cost.shares(Cost() - self._room)

    def _has_place(self, pool: InstancePool) -> bool:
        """Return whether one more may be made, now or after those that are being ended."""
        return pool.size - pool.ending + self._planned[pool] < pool.pooling.max_instances

    def _make(self, pools: Sequence[InstancePool]) -> None:
        """Begin to make what can be made now, and plan the others."""
        made = [pool for pool in pools if self._make_now(pool)]
        later = [pool for pool in pools if pool not in made]
        self._kept.update(made)
        self._planned.update(later)
        self._promised += _cost_of(later)

    def _make_now(self, pool: InstancePool) -> bool:
        """Begin to make one, if there are a place and room now that are not promised."""
        if pool.size >= pool.pooling.max_instances:
            return False
        if pool.cost.beyond(self.budget.free) or pool.cost.beyond(self._room):
            return False
        self.make(pool)
        return True

    def _make_room(self, cost: Cost) -> bool:
        """Give up warm instances until there is room; none of them if all are not enough."""
        room = self._room
        missing = cost.beyond(room)
        chosen = []
        for pool, member in self._spare() if missing else ():
            if pool.cost.shares(missing):
                chosen.append((pool, member))
                room += pool.cost
                missing = missing.beyond(pool.cost)
        if missing:
            return False
        for pool, member in chosen:
            if cost.beyond(room - pool.cost):
                self._give_up(pool, member)
            else:
                room -= pool.cost  # Those that were chosen later are enough.
        return True

    def _spare(self) -> list[tuple[InstancePool, Member]]:
        """List warm instances that are not reserved: first what no waiter needs, the oldest."""
        wanted = self.queue.wanted()
        spare = [
            (pool, member)
            for pool in self.pools
            for member in pool.warm[: max(0, len(pool.warm) - self._kept[pool])]
        ]
        return sorted(spare, key=lambda pair: (pair[0].spec in wanted, pair[1].made_at))

    def _retire_broken(self, pool: InstancePool) -> None:
        if pool in self._looked_at:
            return
        self._looked_at.add(pool)
        for member in list(pool.warm):
            if (why := member.fault) is not None:
                self._give_up(pool, member, why)

    def _give_up(self, pool: InstancePool, member: Member, why: str | None = None) -> None:
        pool.warm.remove(member)
        self.retire(pool, member, why)


def _cost_of(pools: Sequence[InstancePool]) -> Cost:
    return sum((pool.cost for pool in pools), Cost())
