"""One walk along the line: who gets what, and what must be made or given up for it.

A chain takes all it needs at once or nothing, so nobody waits with something in hand. Whoever
can't be served yet holds back those behind who need any of the same: they would take it away for
ever. Those who need something else go on.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentfly.resources.line import Waiter
from agentfly.resources.pooling import Budget, Pooling
from agentfly.resources.stock import Member, Stock
from agentfly.types import EnvSpec


@dataclass(slots=True, kw_only=True)
class Allocation:
    """What is decided on one walk."""

    stocks: Mapping[EnvSpec, Stock]
    budget: Budget
    leaving: Budget
    """What is about to be given back to the budget."""
    is_ready: Callable[[Stock], bool]
    """Whether one that lives is warm."""
    make: Callable[[Stock], None]
    grant: Callable[[Waiter], None]
    served: list[Waiter] = field(default_factory=list)
    _held_back: set[EnvSpec] = field(default_factory=set)
    _claimed: Counter[EnvSpec] = field(default_factory=Counter)
    """Of what is ready or about to be, how much is for those who were visited."""
    _lacking: Pooling | None = None
    """The first that did not fit into the budget; nothing is made after it."""

    def visit(self, waiter: Waiter) -> bool:
        """Serve a waiter, or provide for it; tell whether to go on to those who need the same."""
        stocks = [self.stocks[spec] for spec in waiter.specs]
        if self._held_back.isdisjoint(waiter.specs) and all(map(self.is_ready, stocks)):
            self.grant(waiter)
            self.served.append(waiter)
            return True
        self._held_back |= waiter.specs
        provided = [self._provide(stock) for stock in stocks]
        return all(provided)

    def top_up(self) -> None:
        """Make what is missing to the warm minimum, with what nobody waits for."""
        for stock in self.stocks.values():
            while (
                stock.can_be_made
                and stock.supply - self._claimed[stock.spec] < stock.pooling.min_warm
                and self._room_for(stock)
            ):
                self.make(stock)

    def to_give_up(self) -> list[tuple[Stock, Member]]:
        """Choose the warm instances that stand in the way of what did not fit, the oldest first."""
        if self._lacking is None:
            return []
        chosen: list[tuple[Stock, Member]] = []
        gain = self.leaving
        for stock, member in self._spare():
            if self.budget.fits(self._lacking, besides=gain):
                break
            chosen.append((stock, member))
            gain = gain.and_also(stock.pooling)
        return chosen

    def _spare(self) -> list[tuple[Stock, Member]]:
        spare = []
        for stock in self.stocks.values():
            unclaimed = max(0, len(stock.warm) - self._claimed[stock.spec])
            spare += [(stock, member) for member in stock.warm[:unclaimed]]
        return sorted(spare, key=lambda pair: pair[1].made_at)

    def _provide(self, stock: Stock) -> bool:
        if stock.supply <= self._claimed[stock.spec]:
            if not self._room_for(stock):
                return False
            self.make(stock)
        self._claimed[stock.spec] += 1
        return True

    def _room_for(self, stock: Stock) -> bool:
        if stock.size >= stock.pooling.max_instances or self._lacking is not None:
            return False
        if not self.budget.fits(stock.pooling):
            self._lacking = stock.pooling
            return False
        return True
