"""Lending the instances of one event loop: who asks, who gets, who gives back.

      make                 grant                 give back
── making ──────► warm ──────────► lent ───────────────────────┬─► ended (worn, broken)
                   ▲                                           │
                   └───────────── healthy? ◄── checking ◄──────┘
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable

from agentfly.errors import AgentFlyError, ConfigError, EnvError, LeaseTimeout
from agentfly.resources.allocation import Allocation
from agentfly.resources.homes import home_of
from agentfly.resources.line import Line, Waiter
from agentfly.resources.loan import Loan
from agentfly.resources.pooling import Budget, Pooling
from agentfly.resources.stock import Stock
from agentfly.resources.upkeep import Upkeep
from agentfly.types import Clock, EnvSpec


class Dispatcher:
    """All methods are for the thread of its event loop."""

    def __init__(
        self, pooling_of: Callable[[EnvSpec], Pooling], budget: Budget, clock: Clock
    ) -> None:
        self.stocks: dict[EnvSpec, Stock] = {}
        self.line = Line()
        self.clock = clock
        self._pooling_of = pooling_of
        self._budget = budget
        self._upkeep = Upkeep(
            clock=clock, budget=budget, on_change=self.serve, on_failure=self._fail
        )
        self._numbers = itertools.count()
        self._is_closed = False

    async def take(
        self, specs: Iterable[EnvSpec], *, owner: str, deadline: float, priority: int
    ) -> dict[EnvSpec, Loan]:
        """Wait for one instance of each, together; raise LeaseTimeout at the deadline."""
        waiter = self._join(frozenset(specs), owner, priority)
        try:
            async with self.clock.timeout_at(deadline):
                return await waiter.granted
        except BaseException as error:
            reason = self._why_in_vain(waiter)
            self._withdraw(waiter)
            if isinstance(error, TimeoutError):
                raise LeaseTimeout(reason) from error
            raise

    def give_back(self, loans: Iterable[Loan]) -> list[asyncio.Task[None]]:
        """Take instances back, whatever their state; return what ends those of no further use."""
        endings = [self._give_back(loan) for loan in loans]
        self.serve()
        return [ending for ending in endings if ending is not None]

    def know(self, specs: Iterable[EnvSpec]) -> None:
        """Begin to keep instances of these."""
        for spec in specs:
            if spec not in self.stocks:
                pooling = self._pooling_of(spec)
                home = home_of(pooling.where)
                self.stocks[spec] = Stock(spec=spec, pooling=pooling, home=home)
            self.stocks[spec].can_be_made = True

    def serve(self) -> None:
        """Walk along the line once: lend what is there, begin to make what is not."""
        if self._is_closed:
            return
        walk = Allocation(
            stocks=self.stocks,
            budget=self._budget,
            leaving=self._upkeep.leaving,
            is_ready=self._is_ready,
            make=self._upkeep.make,
            grant=self._grant,
        )
        self.line.walk(walk.visit)
        for waiter in walk.served:
            self.line.leave(waiter)
        for stock, member in walk.to_give_up():
            stock.warm.remove(member)
            self._upkeep.retire(stock, member)
        walk.top_up()

    async def close(self) -> None:
        """End everything; whoever waits is told so."""
        self._is_closed = True
        for waiter in list(self.line):
            self._refuse(waiter, EnvError("the manager of environments was closed"))
        await self._upkeep.close()

    def _join(self, specs: frozenset[EnvSpec], owner: str, priority: int) -> Waiter:
        if self._is_closed:
            raise EnvError("the manager of environments is closed")
        self.know(specs)
        self._require_affordable(specs)
        waiter = Waiter(
            specs=specs,
            owner=owner,
            since=self.clock.now(),
            priority=priority,
            number=next(self._numbers),
            granted=asyncio.get_running_loop().create_future(),
        )
        self.line.join(waiter)
        self.serve()
        return waiter

    def _require_affordable(self, specs: Iterable[EnvSpec]) -> None:
        whole = Budget(memory_mb=self._budget.memory_mb, cpus=self._budget.cpus)
        for stock in (self.stocks[spec] for spec in specs):
            if not whole.fits(stock.pooling):
                raise ConfigError(
                    f"{stock.spec.name} can never be lent beside the other environments of its "
                    f"chain: together they need more than the budget of {whole.memory_mb:g} MB "
                    f"and {whole.cpus:g} CPUs. Raise it, or lower memory_mb and cpus in `pooling`"
                )
            whole.take(stock.pooling)

    def _grant(self, waiter: Waiter) -> None:
        now = self.clock.now()
        loans = {}
        for stock in (self.stocks[spec] for spec in waiter.specs):
            loan = Loan(stock, stock.warm.pop(), waiter.owner, now)
            stock.loans.add(loan)
            stock.latencies.append(now - waiter.since)
            loans[stock.spec] = loan
        waiter.granted.set_result(loans)

    def _give_back(self, loan: Loan) -> asyncio.Task[None] | None:
        stock, member = loan.stock, loan.member
        stock.loans.remove(loan)
        member.uses += 1
        if (why := loan.end()) is not None:
            return self._upkeep.retire(stock, member, why)
        if stock.is_worn(member, self.clock.now()):
            return self._upkeep.retire(stock, member)
        self._upkeep.check(stock, member)
        return None

    def _withdraw(self, waiter: Waiter) -> None:
        """Leave the line; what was granted in the very moment of giving up goes back."""
        self.line.leave(waiter)
        if not waiter.granted.done() or waiter.granted.cancelled():
            self.serve()
        elif waiter.granted.exception() is None:
            self.give_back(waiter.granted.result().values())

    def _fail(self, stock: Stock, error: AgentFlyError) -> None:
        """Tell the first who waits for one that it could not be made."""
        waiter = self.line.first_for(stock.spec)
        if waiter is None:
            stock.can_be_made = False
        else:
            self._refuse(waiter, error)

    def _refuse(self, waiter: Waiter, error: AgentFlyError) -> None:
        self.line.leave(waiter)
        if not waiter.granted.done():
            waiter.granted.set_exception(error)

    def _is_ready(self, stock: Stock) -> bool:
        """Tell whether there is one to lend, having dropped those that died meanwhile."""
        while stock.warm and (why := stock.warm[-1].instance.unfit) is not None:
            self._upkeep.retire(stock, stock.warm.pop(), why)
        return bool(stock.warm)

    def _why_in_vain(self, waiter: Waiter) -> str:
        now = self.clock.now()
        needed = [self.stocks[spec] for spec in waiter.specs]
        names = " and ".join(sorted(stock.spec.name for stock in needed))
        states = "; ".join(_state(stock, now) for stock in needed)
        return (
            f"{names} did not become free for {waiter.owner} within {now - waiter.since:.1f} s: "
            f"{states}. Raise max_instances or the budget, or end those chains sooner"
        )


def _state(stock: Stock, now: float) -> str:
    held = f"{len(stock.loans)} of at most {stock.pooling.max_instances} {stock.spec.name} are held"
    by = f" (by {stock.holders(now)})" if stock.loans else ""
    return f"{held}{by}, {len(stock.warm)} ready, {stock.making} being made, {stock.ending} ending"
