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
from agentfly.resources.pooling import Budget, Cost, Pooling
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
        waiter = self._join(tuple(dict.fromkeys(specs)), owner, priority)
        received = False
        try:
            async with self.clock.timeout_at(deadline):
                loans = await waiter.granted
            received = True
        except TimeoutError as error:
            raise LeaseTimeout(self._timeout_message(waiter)) from error
        finally:
            if not received:
                self._withdraw(waiter)
        return loans

    def give_back(self, loans: Iterable[Loan], *, used: bool = True) -> list[asyncio.Task[None]]:
        """Take instances back in any state; return the tasks that end those of no further use."""
        endings = [self._give_back(loan, used=used) for loan in loans]
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
        """Lend what is there to those in line, and begin to make what is not."""
        if self._is_closed:
            return
        Allocation(
            line=self.line,
            stocks=self.stocks.values(),
            budget=self._budget,
            make=self._upkeep.make,
            retire=self._upkeep.retire,
            grant=self._grant,
        ).run()

    async def close(self) -> None:
        """End everything; raise EnvError in those that wait."""
        self._is_closed = True
        for waiter in list(self.line):
            self._refuse(waiter, EnvError("the manager of environments was closed"))
        await self._upkeep.close()

    def _join(self, specs: tuple[EnvSpec, ...], owner: str, priority: int) -> Waiter:
        if self._is_closed:
            raise EnvError("the manager of environments is closed")
        self.know(specs)
        stocks = tuple(self.stocks[spec] for spec in specs)
        self._require_affordable(stocks)
        waiter = Waiter(
            stocks=stocks,
            owner=owner,
            since=self.clock.now(),
            priority=priority,
            number=next(self._numbers),
            granted=asyncio.get_running_loop().create_future(),
        )
        self.line.join(waiter)
        self.serve()
        return waiter

    def _require_affordable(self, stocks: Iterable[Stock]) -> None:
        needed = Cost()
        for stock in stocks:
            needed += stock.cost
            if needed.beyond(self._budget.total):
                raise ConfigError(
                    f"{stock.spec.name} can never be lent beside the other environments of its "
                    f"chain: together they need more than the budget of {self._budget}. "
                    "Raise it, or lower memory_mb and cpus in `pooling`"
                )

    def _grant(self, waiter: Waiter) -> None:
        now = self.clock.now()
        loans = {}
        for stock in waiter.stocks:
            loan = Loan(stock, stock.warm.pop(), waiter.owner, now)
            stock.loans.add(loan)
            stock.latencies.append(now - waiter.since)
            loans[stock.spec] = loan
        waiter.granted.set_result(loans)

    def _give_back(self, loan: Loan, *, used: bool) -> asyncio.Task[None] | None:
        stock, member = loan.stock, loan.member
        stock.loans.remove(loan)
        member.uses += used
        if (why := loan.end()) is not None:
            return self._upkeep.retire(stock, member, why)
        if stock.is_worn(member, self.clock.now()):
            return self._upkeep.retire(stock, member)
        if used:
            self._upkeep.check(stock, member)
        else:
            self._upkeep.shelve(stock, member)
        return None

    def _withdraw(self, waiter: Waiter) -> None:
        """Leave the line; what was granted at the moment of giving up goes back unused."""
        self.line.leave(waiter)
        if not waiter.granted.done() or waiter.granted.cancelled():
            self.serve()
        elif waiter.granted.exception() is None:
            self.give_back(waiter.granted.result().values(), used=False)

    def _fail(self, stock: Stock, error: AgentFlyError) -> None:
        """Refuse the first that waits for an instance which could not be made."""
        waiter = self.line.first_for(stock.spec)
        if waiter is None:
            stock.can_be_made = False
        else:
            self._refuse(waiter, error)

    def _refuse(self, waiter: Waiter, error: AgentFlyError) -> None:
        self.line.leave(waiter)
        if not waiter.is_done:
            waiter.granted.set_exception(error)

    def _timeout_message(self, waiter: Waiter) -> str:
        now = self.clock.now()
        names = " and ".join(stock.spec.name for stock in waiter.stocks)
        states = "; ".join(_state(stock, now) for stock in waiter.stocks)
        return (
            f"{names} did not become free for {waiter.owner} within {now - waiter.since:.1f} s: "
            f"{states}. {_way_out(waiter.stocks)}"
        )


def _way_out(stocks: Iterable[Stock]) -> str:
    slow = [stock for stock in stocks if stock.making and not stock.loans]
    if not slow:
        return "Raise max_instances or the budget, or end those chains sooner"
    name, where = slow[0].spec.name, slow[0].pooling.where
    return f"Making {name} (where={where!r}) takes longer than that: see if it starts, or wait more"


def _state(stock: Stock, now: float) -> str:
    held = f"{len(stock.loans)} of at most {stock.pooling.max_instances} {stock.spec.name} are held"
    by = f" (by {stock.holders(now)})" if stock.loans else ""
    return f"{held}{by}, {len(stock.warm)} ready, {stock.making} being made, {stock.ending} ending"
