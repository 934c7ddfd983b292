"""Who holds what and since when: as data and as text."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentfly.resources.dispatcher import Dispatcher
from agentfly.resources.stock import Stock
from agentfly.runtime.registry import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class StockState:
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
    stocks: tuple[StockState, ...] = ()
    leases: tuple[Held, ...] = ()
    waits: tuple[Held, ...] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """Return the numbers by name, such as `env/Shop/leased`."""
        counted = ("waiting", "leased", "warm", "created", "recycled", "crashed")
        timed = ("lease_p50", "lease_p99")
        found = {
            f"env/{stock.environment}/{name}": getattr(stock, name)
            for stock in self.stocks
            for name in (*counted, *timed)
        }
        return {name: float(value) for name, value in found.items() if value is not None}

    @property
    def text(self) -> str:
        """Show it to a person."""
        lines = [line for stock in self.stocks for line in _stock_lines(stock)]
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
    waiters = sorted(dispatcher.line, key=lambda waiter: waiter.place)
    loans = [loan for stock in dispatcher.stocks.values() for loan in stock.loans]
    return Snapshot(
        **taken,  # type: ignore[arg-type]
        stocks=tuple(
            _state(stock, sum(stock.spec in waiter.specs for waiter in waiters))
            for stock in dispatcher.stocks.values()
        ),
        leases=tuple(
            _held(loan.owner, [loan.stock.spec.name], now - loan.since)
            for loan in sorted(loans, key=lambda loan: loan.since)
        ),
        waits=tuple(
            _held(waiter.owner, sorted(spec.name for spec in waiter.specs), now - waiter.since)
            for waiter in waiters
        ),
    )


def _state(stock: Stock, waiting: int) -> StockState:
    latencies = sorted(stock.latencies)
    return StockState(
        environment=stock.spec.name,
        where=stock.pooling.where,
        waiting=waiting,
        leased=len(stock.loans),
        warm=len(stock.warm),
        making=stock.making,
        ending=stock.ending + stock.checking,
        max_instances=stock.pooling.max_instances,
        created=stock.created,
        recycled=stock.recycled,
        crashed=stock.crashed,
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


def _stock_lines(stock: StockState) -> Iterator[str]:
    yield (
        f"{stock.environment} ({stock.where}): {stock.leased} leased, {stock.warm} warm, "
        f"{stock.waiting} waiting, {stock.making} being made, {stock.ending} ending, "
        f"of at most {stock.max_instances}"
    )
    times = "no lease yet"
    if stock.lease_p50 is not None and stock.lease_p99 is not None:
        times = f"a lease takes {stock.lease_p50:.3g} s (p50), {stock.lease_p99:.3g} s (p99)"
    made = f"{stock.created} created, {stock.recycled} recycled, {stock.crashed} crashed"
    yield f"{'':10} {made}; {times}"


def _line(held: Held) -> str:
    return f"{held.owner} for {held.seconds:.1f} s: {', '.join(held.environments)}"
