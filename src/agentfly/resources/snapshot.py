"""Who holds what and since when: as data and as text."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentfly.resources.dispatcher import Dispatcher
from agentfly.resources.pool import InstancePool
from agentfly.runtime.process_registry import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """How many instances of one kind there are, and what became of others."""

    environment: str
    where: str
    waiting: int
    leased: int
    warm: int
    making: int
    ending: int
    max_instances: int
    created: int
    recycled: int
    crashed: int
    lease_p50: float | None
    """Seconds that half of the last leases waited at the most; None without any."""
    lease_p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One lease, or one wait for it."""

    owner: str
    environments: tuple[str, ...]
    seconds: float
    """Since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a manager at one moment."""

    taken_at: float
    """Seconds since 1970."""
    pid: int
    started: int
    """With the pid, this names the process once and for all."""
    stocks: tuple[PoolState, ...] = ()
    leases: tuple[Held, ...] = ()
    waits: tuple[Held, ...] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """Return the numbers by name, such as `env/Shop/leased`."""
        counted = ("waiting", "leased", "warm", "created", "recycled", "crashed")
        timed = ("lease_p50", "lease_p99")
        found = {
            f"env/{pool.environment}/{name}": getattr(pool, name)
            for pool in self.stocks
            for name in (*counted, *timed)
        }
        return {name: float(value) for name, value in found.items() if value is not None}

    @property
    def text(self) -> str:
        """Show it to a person."""
        lines = [line for pool in self.stocks for line in _pool_lines(pool)]
        lines += [f"{'held by':>10} {_line(held)}" for held in self.leases]
        lines += [f"{'waiting':>10} {_line(wait)}" for wait in self.waits]
        return "\n".join(lines or ["no environments"])


def snapshot_of(dispatcher: Dispatcher | None) -> Snapshot:
    """Look at a dispatcher; without one there are no environments yet."""
    me = Identity.of(os.getpid())
    assert me is not None, "this process runs"
    taken = {"taken_at": time.time(), "pid": me.pid, "started": me.start}
    if dispatcher is None:
        return Snapshot(**taken)  # type: ignore[arg-type]
    now = dispatcher.clock.now()
    waiters = sorted(dispatcher.queue, key=lambda waiter: waiter.place)
    leases = [lease for pool in dispatcher.pools.values() for lease in pool.leases]
    return Snapshot(
        **taken,  # type: ignore[arg-type]
        stocks=tuple(
            _state(pool, sum(pool.spec in waiter.specs for waiter in waiters))
            for pool in dispatcher.pools.values()
        ),
        leases=tuple(
            _held(lease.owner, [lease.pool.spec.name], now - lease.since)
            for lease in sorted(leases, key=lambda lease: lease.since)
        ),
        waits=tuple(
            _held(waiter.owner, sorted(spec.name for spec in waiter.specs), now - waiter.since)
            for waiter in waiters
        ),
    )


def _state(pool: InstancePool, waiting: int) -> PoolState:
    latencies = sorted(pool.latencies)
    return PoolState(
        environment=pool.spec.name,
        where=pool.pooling.where,
        waiting=waiting,
        leased=len(pool.leases),
        warm=len(pool.warm),
        making=pool.making,
        ending=pool.ending + pool.checking,
        max_instances=pool.pooling.max_instances,
        created=pool.created,
        recycled=pool.recycled,
        crashed=pool.crashed,
        lease_p50=_percentile(latencies, 50),
        lease_p99=_percentile(latencies, 99),
    )


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that so many percent don't exceed.

    >>> _percentile([1.0, 2.0, 3.0, 4.0], 50), _percentile([1.0, 2.0], 99)
    (2.0, 2.0)
    """
    return values[-(-len(values) * percent // 100) - 1] if values else None


def _held(owner: str, environments: Sequence[str], seconds: float) -> Held:
    return Held(owner=owner, environments=tuple(environments), seconds=seconds)


def _pool_lines(pool: PoolState) -> Iterator[str]:
    yield (
        f"{pool.environment} ({pool.where}): {pool.leased} leased, {pool.warm} warm, "
        f"{pool.waiting} waiting, {pool.making} being made, {pool.ending} ending, "
        f"of at most {pool.max_instances}"
    )
    times = "no lease yet"
    if pool.lease_p50 is not None and pool.lease_p99 is not None:
        times = f"a lease takes {pool.lease_p50:.3g} s (p50), {pool.lease_p99:.3g} s (p99)"
    made = f"{pool.created} created, {pool.recycled} recycled, {pool.crashed} crashed"
    yield f"{'':10} {made}; {times}"


def _line(held: Held) -> str:
    return f"{held.owner} for {held.seconds:.1f} s: {', '.join(held.environments)}"
