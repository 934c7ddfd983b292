"""Simulated instances and chains in virtual time, and the rule of fairness to hold the manager to.

Nothing here looks into the manager but to see whom it has lent to: who waits, and what each
instance does, is known from the chains and the instances themselves. Whenever nothing is left to
do but to let time pass, `Rule` says what the manager should have done and has not.
"""

import asyncio
import itertools
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from agentfly.errors import EnvError, LeaseTimeout
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.resources.maintenance import CHECK_SECONDS
from agentfly.resources.placement import PLACEMENTS
from agentfly.types import Clock, EnvSpec

UNIT = 0.1
"""What one unit of memory or CPU is to the manager: a number whose sums are not exact."""

NOT_MADE = "it could not be made"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of environment; what it takes is in units."""

    memory: int = 0
    cpus: int = 0
    max_instances: int = 1
    min_warm: int = 0
    max_uses: int = 99
    make_seconds: float = 1.0
    close_seconds: float = 1.0
    check_seconds: float | None = None
    """None for a kind that can't be asked whether it is healthy."""
    failures: tuple[bool, ...] = (False,)
    """Which instances can't be made, over and over."""
    illnesses: tuple[bool, ...] = (False,)
    """Which checks find an instance ill, over and over."""

    @property
    def cost(self) -> tuple[int, int]:
        return self.memory, self.cpus

    @property
    def pooling(self) -> Pooling:
        return Pooling(
            where="simulated",
            memory_mb=self.memory * UNIT,
            cpus=self.cpus * UNIT,
            max_instances=self.max_instances,
            min_warm=self.min_warm,
            max_uses=self.max_uses,
            max_age=1e9,
        )


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One chain that leases once."""

    kinds: tuple[int, ...]
    start: float = 0.0
    holds: float = 1.0
    patience: float = math.inf
    """Seconds until its wait for the lease times out."""
    cancelled_at: float = math.inf
    priority: int = 0
    breaks: bool = False
    """Whether its instances can't be used again."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What happens in one world."""

    kinds: tuple[Kind, ...]
    chains: tuple[Chain, ...]
    memory: int = 1000
    cpus: int = 1000
    deaths: tuple[tuple[float, int], ...] = ()
    """When an idle instance of which kind dies unnoticed."""

    @property
    def settling_seconds(self) -> float:
        """How long the manager may need by itself, without any lease that ends."""
        slowest = max(k.make_seconds + k.close_seconds + (k.check_seconds or 0) for k in self.kinds)
        return 3 * slowest


class Zero:
    def reset(self) -> None: ...


class One(Zero): ...


class Two(Zero): ...


class Three(Zero): ...


FACTORIES = (Zero, One, Two, Three)


@dataclass(eq=False)
class SimulatedInstance:
    """An instance that only takes its time."""

    world: "World"
    number: int
    state: str = "idle"
    closes: int = 0
    unfit: str | None = None
    environment: None = None

    @property
    def kind(self) -> Kind:
        return self.world.scenario.kinds[self.number]

    @property
    def methods(self) -> dict[str, bool]:
        return {"reset": False} | ({} if self.kind.check_seconds is None else {"healthy": True})

    def attribute(self, name: str) -> Any:
        return {"reset": lambda: self, "healthy": self._healthy}[name]

    async def _healthy(self) -> bool:
        assert self.state == "idle", f"asked for its health while {self.state}"
        self.state = "checking"
        await asyncio.sleep(self.kind.check_seconds or 0)
        if self.state == "checking":
            self.state = "idle"
        return not next(self.world.illnesses[self.number])

    async def close(self) -> None:
        assert self.state in ("idle", "checking"), f"closed while {self.state}"
        self.closes += 1
        self.state = "closing"
        await asyncio.sleep(self.kind.close_seconds)
        self.state = "gone"


@dataclass(eq=False)
class Waiting:
    """One chain in line."""

    owner: str
    chain: Chain
    number: int
    """The order in which they came."""
    before: frozenset[str]
    """To whom was lent when it came, though not all of them may know yet."""

    @property
    def place(self) -> tuple[int, int]:
        return self.chain.priority, self.number


@dataclass
class First:
    """The first waiter of its priority."""

    waiting: Waiting
    ahead: frozenset[str]
    """The leases that were out when it became that."""
    free_since: float | None = None
    """When the last of those, and of more urgent ones, had ended."""

    @property
    def priority(self) -> int:
        return self.waiting.chain.priority


@dataclass
class World:
    """All that is known of instances and chains without asking the manager."""

    scenario: Scenario
    instances: list[SimulatedInstance] = field(default_factory=list)
    making: Counter[int] = field(default_factory=Counter)
    waiting: list[Waiting] = field(default_factory=list)
    leases: dict[str, int] = field(default_factory=dict)
    """Who holds instances, and its priority."""
    ends: dict[int, str] = field(default_factory=dict)
    """How each chain ended."""
    served_at: dict[int, float] = field(default_factory=dict)
    """When each chain got its lease."""
    errors: list[str] = field(default_factory=list)
    """What the manager logged as its own errors."""
    fails: bool = True
    _firsts: dict[int, "First"] = field(default_factory=dict)
    """The first waiter of each priority."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.failures = [_cycle(kind.failures) for kind in self.scenario.kinds]
        self.illnesses = [_cycle(kind.illnesses) for kind in self.scenario.kinds]

    async def make(self, spec: EnvSpec, pooling: Pooling, clock: Clock) -> SimulatedInstance:
        """Make an instance, as a place for environments does."""
        number = FACTORIES.index(spec.factory)
        self.making[number] += 1
        try:
            self._require_within_limits()
            await asyncio.sleep(self.scenario.kinds[number].make_seconds)
            if next(self.failures[number]) and self.fails:
                raise EnvError(NOT_MADE)
            self.instances.append(SimulatedInstance(self, number))
        finally:
            self.making[number] -= 1
        return self.instances[-1]

    def count(self, number: int, *states: str) -> int:
        return sum(i.number == number and i.state in states for i in self.instances)

    def size(self, number: int) -> int:
        here = self.count(number, "idle", "lent", "checking", "closing")
        return here + self.making[number]

    def _require_within_limits(self) -> None:
        kinds = self.scenario.kinds
        sizes = [self.size(number) for number in range(len(kinds))]
        assert all(size <= kind.max_instances for size, kind in zip(sizes, kinds, strict=True))
        for dimension, total in enumerate((self.scenario.memory, self.scenario.cpus)):
            taken = sum(s * k.cost[dimension] for s, k in zip(sizes, kinds, strict=True))
            assert taken <= total, f"{taken} units are taken of {total}"

    async def run_chain(self, pool: EnvironmentManager, number: int, chain: Chain) -> None:
        """Run one chain to its end, whatever that is."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        if chain.cancelled_at < math.inf:
            loop.call_at(chain.cancelled_at, task.cancel)
        try:
            await asyncio.sleep(chain.start)
            self.ends[number] = await self._lease(pool, number, chain)
        except asyncio.CancelledError:
            self.ends[number] = "cancelled"

    async def _lease(self, pool: EnvironmentManager, number: int, chain: Chain) -> str:
        owner = f"chain {number}"
        specs = [EnvSpec(FACTORIES[kind]) for kind in chain.kinds]
        deadline = asyncio.get_running_loop().time() + chain.patience
        lease = pool.lease(specs, owner=owner, deadline=deadline, priority=chain.priority)
        before = frozenset(held.owner for held in pool.snapshot().leases)
        waiting = Waiting(owner, chain, next(self._numbers), before)
        self.waiting.append(waiting)
        self._look_who_is_first()
        try:
            async with lease as leased:
                with self.held(owner, [handle.reset() for handle in leased.values()], chain):
                    self._leave_the_line(waiting)
                    self.served_at[number] = asyncio.get_running_loop().time()
                    await asyncio.sleep(chain.holds)
        except LeaseTimeout:
            return "timed out"
        except EnvError as error:
            return str(error)
        finally:
            self._leave_the_line(waiting)
        return "served"

    @contextmanager
    def held(self, owner: str, instances: list[SimulatedInstance], chain: Chain) -> Iterator[None]:
        for instance in instances:
            assert instance.state == "idle", f"lent while {instance.state}"
            assert instance.unfit is None, "lent though it is dead"
            instance.state = "lent"
        self.leases[owner] = chain.priority
        try:
            yield
        finally:
            del self.leases[owner]
            for instance in instances:
                instance.state = "idle"
                instance.unfit = "broken" if chain.breaks else None

    def _leave_the_line(self, waiting: Waiting) -> None:
        if waiting in self.waiting:
            self.waiting.remove(waiting)
            self._look_who_is_first()

    def _look_who_is_first(self) -> None:
        heads: dict[int, Waiting] = {}
        for waiting in sorted(self.waiting, key=lambda waiting: waiting.place):
            heads.setdefault(waiting.chain.priority, waiting)
        before = self._firsts
        self._firsts = {
            priority: before[priority]
            if priority in before and before[priority].waiting is waiting
            else First(waiting, waiting.before | self.leases.keys())
            for priority, waiting in heads.items()
        }

    def kill_one(self, number: int) -> None:
        for instance in self.instances:
            if instance.number == number and instance.state == "idle":
                instance.unfit = "dead"
                return

    def check(self, now: float) -> None:
        """Raise AssertionError unless all is as it must be while time passes."""
        late = Rule(self).overdue()
        assert not late, f"at {now:g} s: {late}"
        for first in self._firsts.values():
            self._check_first(first, now)

    def _check_first(self, first: "First", now: float) -> None:
        """See that it waits for no lease but those that were out, and more urgent ones."""
        urgent = {owner for owner, priority in self.leases.items() if priority < first.priority}
        if (first.ahead | urgent) & self.leases.keys() or min(self._firsts) < first.priority:
            first.free_since = None
            return
        first.free_since = now if first.free_since is None else first.free_since
        who = f"at {now:g} s: the first of its priority, {first.waiting},"
        assert self._is_busy(), f"{who} waits for leases that began after it was the first"
        limit = first.free_since + self.scenario.settling_seconds
        assert now <= limit, f"{who} waits for what is made and ended over and over"

    def _is_busy(self) -> bool:
        return self.making.total() > 0 or any(
            instance.state in ("checking", "closing") for instance in self.instances
        )


def _cycle(pattern: tuple[bool, ...]) -> Iterator[bool]:
    while True:
        yield from pattern


class Rule:
    """The rule of fairness, waiter by waiter, on plain counts."""

    def __init__(self, world: World) -> None:
        self.kinds = world.scenario.kinds
        self.waiting = sorted(world.waiting, key=lambda waiting: waiting.place)
        numbers = range(len(self.kinds))
        self.idle = [world.count(n, "idle") for n in numbers]
        self.coming = [world.count(n, "checking") + world.making[n] for n in numbers]
        closing = [world.count(n, "closing") for n in numbers]
        sizes = [world.size(n) for n in numbers]
        limits = [kind.max_instances for kind in self.kinds]
        self.places_now = [limits[n] - sizes[n] for n in numbers]
        self.places = [limits[n] - sizes[n] + closing[n] for n in numbers]
        total = (world.scenario.memory, world.scenario.cpus)
        taken = self._cost_of({n: sizes[n] for n in numbers})
        ending = self._cost_of({n: closing[n] for n in numbers})
        self.room_now = [total[d] - taken[d] for d in (0, 1)]
        self.room = [total[d] - taken[d] + ending[d] for d in (0, 1)]

    def overdue(self) -> list[str]:
        """List what should have been done for those in line."""
        firsts: dict[int, Waiting] = {}
        for waiting in self.waiting:
            short = [d for d in (0, 1) if self.room[d] < 0]
            needed = waiting.chain.kinds
            blocked = any(self.kinds[n].cost[d] for n in needed for d in short)
            if not blocked and all(self.idle[n] for n in needed):
                return [f"{waiting} could be served with what is idle"]
            if firsts.setdefault(waiting.chain.priority, waiting) is waiting:
                to_make = [n for n in self._missing(needed) if self.places[n] > 0]
                if overdue := self._not_made(to_make, waiting):
                    return overdue
                self._take(needed, to_make)
        for waiting in self.waiting:
            needed = waiting.chain.kinds
            to_make = self._missing(needed)
            is_first = firsts[waiting.chain.priority] is waiting
            if is_first or not all(self.places[n] > 0 for n in to_make):
                continue
            if overdue := self._not_made(to_make, waiting):
                return overdue
            if self._fits(self._cost_of(Counter(to_make)), self.room):
                self._take(needed, to_make)
        return []

    def _missing(self, needed: Iterable[int]) -> list[int]:
        return [n for n in needed if not self.idle[n] and not self.coming[n]]

    def _not_made(self, to_make: list[int], waiting: Waiting) -> list[str]:
        """List what could have been begun to be made, or given up to make room for it."""
        need = self._cost_of(Counter(to_make))
        now = [n for n in to_make if self.places_now[n] > 0 and self._fits_now(n)]
        if self._fits(need, self.room) and now:
            return [f"kinds {now} could be made for {waiting}"]
        if self._fits(need, self.room):
            return []
        mine = waiting.chain.kinds
        idle = {n: self.idle[n] - (n in mine) for n in range(len(self.kinds)) if self.idle[n]}
        gain = self._cost_of(idle)
        if self._fits(need, [self.room[d] + gain[d] for d in (0, 1)]):
            return [f"idle instances could be given up for {waiting}"]
        return []

    def _fits_now(self, n: int) -> bool:
        cost = self.kinds[n].cost
        return self._fits(cost, self.room) and self._fits(cost, self.room_now)

    def _take(self, needed: Iterable[int], to_make: Iterable[int]) -> None:
        """Take out of the counts what is there for a waiter, and what is to be made for it."""
        for n in needed:
            if self.idle[n]:
                self.idle[n] -= 1
            elif self.coming[n]:
                self.coming[n] -= 1
        for n in to_make:
            self.places[n] -= 1
            self.room = [self.room[d] - self.kinds[n].cost[d] for d in (0, 1)]

    def _cost_of(self, counts: dict[int, int]) -> list[int]:
        return [sum(self.kinds[n].cost[d] * c for n, c in counts.items()) for d in (0, 1)]

    def _fits(self, need: Iterable[int], room: list[int]) -> bool:
        return all(n == 0 or n <= r for n, r in zip(need, room, strict=True))


async def live(world: World) -> None:
    """Run a scenario, see that everything is there again at its end, and end it."""
    scenario = world.scenario
    loop = asyncio.get_running_loop()
    table = {FACTORIES[n]: kind.pooling for n, kind in enumerate(scenario.kinds)}
    limits = {"memory_mb": scenario.memory * UNIT, "cpus": scenario.cpus * UNIT}
    async with EnvironmentManager(table, **limits) as pool:  # type: ignore[arg-type]
        with _checked_while_time_passes(world.check):
            for when, number in scenario.deaths:
                loop.call_at(when, world.kill_one, number)
            async with asyncio.TaskGroup() as chains:
                for number, chain in enumerate(scenario.chains):
                    chains.create_task(world.run_chain(pool, number, chain))
            await asyncio.sleep(2 * CHECK_SECONDS + scenario.settling_seconds)
            world.fails = False
            for number in range(len(scenario.kinds)):
                await _lease_all(world, pool, number)
    assert world.ends.keys() == set(range(len(scenario.chains))), "every chain has ended, once"
    assert set(world.ends.values()) <= {"served", "timed out", "cancelled", NOT_MADE}
    assert not world.leases
    assert not world.waiting
    for instance in world.instances:
        assert (instance.state, instance.closes) == ("gone", 1)


async def _lease_all(world: World, pool: EnvironmentManager, number: int) -> None:
    """Lease as many of a kind at once as its limit and the budget allow."""
    kind = world.scenario.kinds[number]
    totals = (world.scenario.memory, world.scenario.cpus)
    fitting = [total // cost for total, cost in zip(totals, kind.cost, strict=True) if cost]
    size = min(kind.max_instances, *fitting, kind.max_instances)
    everyone = asyncio.Barrier(size)

    async def hold(owner: str) -> None:
        spec = EnvSpec(FACTORIES[number])
        async with pool.lease([spec], owner=owner, deadline=math.inf) as leased:
            with world.held(owner, [leased[spec].reset()], Chain(kinds=(number,))):
                await everyone.wait()

    async with asyncio.timeout(1000), asyncio.TaskGroup() as group:
        for place in range(size):
            group.create_task(hold(f"one of all, {place}"))


@contextmanager
def _checked_while_time_passes(check: Callable[[float], None]) -> Iterator[None]:
    """Check whenever the running loop has nothing to do but to wait for a timer."""
    loop: Any = asyncio.get_running_loop()
    select = loop._selector.select

    def checked(timeout: float | None = None) -> Any:
        if timeout is None or timeout > 0:
            check(loop.time())
        assert timeout is not None, "all wait for each other, and no timer is ahead"
        return select(timeout)

    with patch.object(loop._selector, "select", checked):
        yield


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Let instances of a world be made, and watch what is logged."""

    class Errors(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            world.errors.append(record.getMessage())

    handler = Errors(logging.ERROR)
    log = logging.getLogger("agentfly.resources")
    log.addHandler(handler)
    try:
        with patch.dict(PLACEMENTS, {"simulated": world.make}):
            yield
    finally:
        log.removeHandler(handler)
    assert world.errors == []
