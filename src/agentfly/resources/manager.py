"""The central manager: every chain's environments come from here and go back here."""

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

from agentfly.errors import AgentFlyError, ConfigError, EnvError, LeaseTimeout
from agentfly.resources.allocation import Allocation
from agentfly.resources.cluster_state import ClusterState
from agentfly.resources.maintenance import Maintenance
from agentfly.resources.placement import Placement, placement_of
from agentfly.resources.pool import InstancePool, Lease
from agentfly.resources.pooling import Budget, Cost, Pooling, pooling_of
from agentfly.resources.queue import Waiter, WaitQueue
from agentfly.resources.snapshot import Snapshot, take_snapshot
from agentfly.runtime.clock import LoopClock
from agentfly.types import Clock, EnvSpec

PlacementOf = Callable[[str], Placement]
"""Returns how instances are made, by `Pooling.where`."""


class Dispatcher:
    """The leases of one event loop; all methods are for its thread.

          make                 grant                 give back
    ── making ──────► warm ──────────► lent ───────────────────────┬─► ended (worn, broken)
                       ▲                                           │
                       └───────────── healthy? ◄── checking ◄──────┘
    """

    def __init__(
        self,
        pooling_of: Callable[[EnvSpec], Pooling],
        budget: Budget,
        clock: Clock,
        placement_of: PlacementOf = placement_of,
    ) -> None:
        self.pools: dict[EnvSpec, InstancePool] = {}
        self.queue = WaitQueue()
        self.clock = clock
        self._pooling_of = pooling_of
        self._placement_of = placement_of
        self._budget = budget
        self._maintenance = Maintenance(
            clock=clock, budget=budget, on_change=self.serve, on_failure=self._fail
        )
        self._numbers = itertools.count()
        self._is_closed = False

    async def take(
        self,
        specs: Iterable[EnvSpec],
        *,
        owner: str,
        deadline: float,
        patience: float,
        priority: int,
    ) -> dict[EnvSpec, Lease]:
        """Wait for one instance of each, together, as `EnvironmentManager.lease` says."""
        waiter = self._join(tuple(dict.fromkeys(specs)), owner, priority)
        received = False
        try:
            leases = await self._granted(waiter, deadline=deadline, patience=patience)
            received = True
        finally:
            if not received:
                self._withdraw(waiter)
        return leases

    def give_back(self, leases: Iterable[Lease], *, used: bool = True) -> list[asyncio.Task[None]]:
        """Take instances back in any state; return the tasks that end those of no further use."""
        endings = [self._give_back(lease, used=used) for lease in leases]
        self.serve()
        return [ending for ending in endings if ending is not None]

    def know(self, specs: Iterable[EnvSpec]) -> None:
        """Begin to keep instances of these."""
        for spec in specs:
            if spec not in self.pools:
                pooling = self._pooling_of(spec)
                _require_reset(spec, pooling)
                placement = self._placement_of(pooling.where)
                self.pools[spec] = InstancePool(spec=spec, pooling=pooling, placement=placement)
            self.pools[spec].can_be_made = True

    def serve(self) -> None:
        """Lend idle instances to the waiters in the queue, and begin to make missing ones."""
        if self._is_closed:
            return
        Allocation(
            queue=self.queue,
            pools=self.pools.values(),
            budget=self._budget,
            make=self._maintenance.make,
            retire=self._maintenance.retire,
            grant=self._grant,
        ).run()

    def snapshot(self) -> Snapshot:
        """Return who holds what and since when."""
        return take_snapshot(self.pools.values(), self.queue, self.clock.now())

    async def close(self) -> None:
        """End everything; raise EnvError in those that wait."""
        self._is_closed = True
        for waiter in list(self.queue):
            self._refuse(waiter, EnvError("the manager of environments was closed"))
        await self._maintenance.close()

    def _join(self, specs: tuple[EnvSpec, ...], owner: str, priority: int) -> Waiter:
        if self._is_closed:
            raise EnvError("the manager of environments is closed")
        self.know(specs)
        pools = tuple(self.pools[spec] for spec in specs)
        self._require_affordable(pools)
        waiter = Waiter(
            pools=pools,
            owner=owner,
            since=self.clock.now(),
            priority=priority,
            number=next(self._numbers),
            granted=asyncio.get_running_loop().create_future(),
        )
        self.queue.join(waiter)
        self.serve()
        return waiter

    async def _granted(
        self, waiter: Waiter, *, deadline: float, patience: float
    ) -> dict[EnvSpec, Lease]:
        while not waiter.is_done:
            now = self.clock.now()
            end = min(deadline, waiter.last_progress(now) + patience)
            if now >= end:
                raise LeaseTimeout(self._timeout_message(waiter))
            with suppress(TimeoutError):
                async with self.clock.timeout_at(end):
                    await asyncio.shield(waiter.granted)
        return await waiter.granted

    def _require_affordable(self, pools: Iterable[InstancePool]) -> None:
        needed = Cost()
        for pool in pools:
            needed += pool.cost
            if needed.beyond(self._budget.total):
                raise ConfigError(
                    f"{pool.spec.name} can never be lent with the other environments of its "
                    f"chain: together they need more than the budget of {self._budget}. "
                    "Raise it, or lower memory_mb and cpus in `pooling`"
                )

    def _grant(self, waiter: Waiter) -> None:
        now = self.clock.now()
        leases = {}
        for pool in waiter.pools:
            lease = Lease(pool, pool.warm.pop(), waiter.owner, now)
            pool.leases.add(lease)
            pool.lent_at = now
            pool.latencies.append(now - waiter.since)
            leases[pool.spec] = lease
        waiter.granted.set_result(leases)

    def _give_back(self, lease: Lease, *, used: bool) -> asyncio.Task[None] | None:
        pool, member = lease.pool, lease.member
        pool.leases.remove(lease)
        member.uses += used
        if (why := lease.end()) is not None:
            return self._maintenance.retire(pool, member, why)
        if pool.is_worn(member, self.clock.now()):
            return self._maintenance.retire(pool, member)
        if used:
            self._maintenance.check(pool, member)
        else:
            self._maintenance.shelve(pool, member)
        return None

    def _withdraw(self, waiter: Waiter) -> None:
        """Leave the queue; what was granted at the moment of giving up goes back unused."""
        self.queue.leave(waiter)
        if not waiter.is_done:
            self.serve()
        elif waiter.granted.exception() is None:
            self.give_back(waiter.granted.result().values(), used=False)

    def _fail(self, pool: InstancePool, error: AgentFlyError) -> None:
        """Refuse the first that waits for an instance which could not be made."""
        waiter = self.queue.first_for(pool.spec)
        if waiter is None:
            pool.can_be_made = False
        else:
            self._refuse(waiter, error)

    def _refuse(self, waiter: Waiter, error: AgentFlyError) -> None:
        self.queue.leave(waiter)
        if not waiter.is_done:
            waiter.granted.set_exception(error)

    def _timeout_message(self, waiter: Waiter) -> str:
        now = self.clock.now()
        names = " and ".join(pool.spec.name for pool in waiter.pools)
        states = "; ".join(_state(pool, now) for pool in waiter.pools)
        return (
            f"{names} did not become free for {waiter.owner} within {now - waiter.since:.1f} s, "
            f"and nobody was lent one for {now - waiter.last_progress(now):.1f} s: "
            f"{states}. {_way_out(waiter.pools)}"
        )


def _require_reset(spec: EnvSpec, pooling: Pooling) -> None:
    kind = spec.instance_class
    if pooling.may_be_reused and kind is not None and not hasattr(kind, "reset"):
        raise ConfigError(
            f"{spec.name} is to serve {pooling.max_uses} chains in turn (max_uses), but has no "
            "`reset` that would make it forget the last one: write one, or leave max_uses at 1"
        )


def _way_out(pools: Iterable[InstancePool]) -> str:
    slow = [pool for pool in pools if pool.making and not pool.leases]
    if not slow:
        return "Raise max_instances or the budget, or end those chains sooner"
    name, where = slow[0].spec.name, slow[0].pooling.where
    return (
        f"Making {name} (where={where!r}) takes longer than that: see if it starts, or wait longer "
        "(Limits.lease_seconds)"
    )


def _state(pool: InstancePool, now: float) -> str:
    held = f"{len(pool.leases)} of at most {pool.pooling.max_instances} {pool.spec.name} are held"
    by = f" (by {pool.holders(now)})" if pool.leases else ""
    return f"{held}{by}, {len(pool.warm)} ready, {pool.making} being made, {pool.ending} ending"


RELEASE_SECONDS = 1.0
"""A chain's end waits this long for what it used up to be closed; a slow one goes on without it."""


class EnvironmentManager:
    """Leases environments to chains, from one bounded and budgeted set of instances.

    Instances belong to the event loop in which they were made, and end with it at the latest.

    Args:
        pooling: For environments whose own attribute `pooling` is not what is wanted here.
        memory_mb: What all instances of a loop may take together, by their `memory_mb`.
        cpus: The same for `cpus`.
        clock: Injected in tests.
        placement_of: How instances are made; a cluster makes them on its nodes.
        cluster_state: The state of that cluster, for snapshots.

    >>> class Counter:
    ...     def reset(self, task, seed): ...
    ...     def close(self): ...
    >>> async def main():
    ...     async with EnvironmentManager({Counter: Pooling(max_instances=8)}) as pool:
    ...         async with pool.lease([EnvSpec(Counter)], owner="me", deadline=math.inf) as leased:
    ...             return list(leased)
    >>> asyncio.run(main())
    [EnvSpec(factory=<class '...Counter'>, options=())]
    """

    def __init__(
        self,
        pooling: Mapping[Any, Pooling] | None = None,
        *,
        memory_mb: float = math.inf,
        cpus: float = math.inf,
        clock: Clock | None = None,
        placement_of: PlacementOf = placement_of,
        cluster_state: Callable[[], ClusterState | None] = lambda: None,
    ) -> None:
        self._table = dict(pooling or {})
        self._memory_mb = memory_mb
        self._cpus = cpus
        self._clock = clock or LoopClock()
        self._placement_of = placement_of
        self._cluster_state = cluster_state
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()

    @asynccontextmanager
    async def lease(
        self,
        specs: Sequence[EnvSpec],
        *,
        owner: str,
        deadline: float,
        patience: float = math.inf,
        priority: int = 0,
    ) -> AsyncIterator[Mapping[EnvSpec, Any]]:
        """Lease one instance of each spec together.

        Those with a smaller `priority` come first; within one, those who came first. LeaseTimeout
        is raised at the deadline, or once nobody was lent what is missing for `patience` seconds.
        """
        dispatcher = await self._dispatcher()
        leases = await dispatcher.take(
            specs, owner=owner, deadline=deadline, patience=patience, priority=priority
        )
        try:
            yield {spec: leases[spec].value for spec in dict.fromkeys(specs)}
        finally:
            if endings := dispatcher.give_back(leases.values()):
                await asyncio.wait(endings, timeout=RELEASE_SECONDS)

    async def warm_up(self, specs: Sequence[EnvSpec]) -> None:
        """Begin to make the warm minimum of these, ahead of the first lease."""
        dispatcher = await self._dispatcher()
        dispatcher.know(specs)
        dispatcher.serve()

    def snapshot(self) -> Snapshot:
        """Return who holds what and since when, in the running event loop."""
        session = self._sessions.get(asyncio.get_running_loop())
        own = session.dispatcher.snapshot() if session else take_snapshot()
        return replace(own, cluster=self._cluster_state())

    async def close(self) -> None:
        """End all instances of the running event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.life.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _dispatcher(self) -> Dispatcher:
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            life = self._while_the_loop_lives()
            self._sessions[loop] = _Session(life=life, dispatcher=await anext(life))
        return self._sessions[loop].dispatcher

    async def _while_the_loop_lives(self) -> AsyncGenerator[Dispatcher, None]:
        """Be closed by the loop's end: `asyncio.run` closes the asynchronous generators left."""
        budget = Budget(memory_mb=self._memory_mb, cpus=self._cpus)
        dispatcher = Dispatcher(
            lambda spec: pooling_of(spec.factory, self._table),
            budget,
            self._clock,
            self._placement_of,
        )
        try:
            yield dispatcher
        finally:
            await dispatcher.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """The state that belongs to one event loop."""

    life: AsyncGenerator[Dispatcher, None]
    dispatcher: Dispatcher
