"""Decide what is lent, made and given up, in one pass along the line of waiters.

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

from agentfly.resources.line import Line, Waiter
from agentfly.resources.pooling import Budget, Cost
from agentfly.resources.stock import Member, Stock


@dataclass(slots=True, kw_only=True)
class Allocation:
    """The decisions of one pass."""

    line: Line
    stocks: Collection[Stock]
    budget: Budget
    make: Callable[[Stock], None]
    retire: Callable[[Stock, Member, str | None], object]
    grant: Callable[[Waiter], None]
    _firsts: dict[int, Waiter] = field(default_factory=dict)
    """The first of each priority that can't be served."""
    _looked_at: set[Stock] = field(default_factory=set)
    _kept: Counter[Stock] = field(default_factory=Counter)
    """How many of those that are warm, or about to be, are reserved."""
    _planned: Counter[Stock] = field(default_factory=Counter)
    """How many are to be made as soon as there is a place and room."""
    _promised: Cost = field(default_factory=Cost)
    """The room for what is planned."""

    def run(self) -> None:
        """Lend what can be lent; then begin to make what is missing, in the same order."""
        gone: list[Waiter] = []
        self.line.walk(lambda waiter: self._lend(waiter, gone))
        for waiter in gone:
            self.line.leave(waiter)
        if any(map(self._has_place, self._looked_at)):
            self.line.walk(self._provide)
        self._top_up()

    def _lend(self, waiter: Waiter, gone: list[Waiter]) -> bool:
        """Serve a waiter, if it can be; return whether others that need the same may be served."""
        if not waiter.is_done:
            for stock in waiter.stocks:
                self._retire_broken(stock)
            if not all(self._can_be_lent(stock) for stock in waiter.stocks):
                if self._firsts.setdefault(waiter.priority, waiter) is waiter:
                    self._keep_for(waiter.stocks)
                return False
            self.grant(waiter)
        gone.append(waiter)
        return True

    def _keep_for(self, stocks: Sequence[Stock]) -> None:
        """Keep everything that can serve a waiter."""
        missing = self._keep_what_there_is(stocks)
        if to_make := [stock for stock in missing if self._has_place(stock)]:
            self._make_room(_cost_of(to_make))
            self._make(to_make)

    def _keep_what_there_is(self, stocks: Sequence[Stock]) -> list[Stock]:
        missing = self._missing(stocks)
        self._kept.update(stock for stock in stocks if stock not in missing)
        return missing

    def _provide(self, waiter: Waiter) -> bool:
        """Make what is missing for one behind, if that is all it waits for."""
        if self._firsts.get(waiter.priority) is waiter:
            return True
        missing = self._missing(waiter.stocks)
        if not all(self._has_place(stock) for stock in missing):
            return False
        if missing and not self._make_room(_cost_of(missing)):
            return False
        self._keep_what_there_is(waiter.stocks)
        self._make(missing)
        return True

    def _missing(self, stocks: Sequence[Stock]) -> list[Stock]:
        return [stock for stock in stocks if stock.supply <= self._kept[stock]]

    def _top_up(self) -> None:
        """Make what is missing to the warm minimum, with what nobody waits for."""
        for stock in self.stocks:
            while (
                stock.can_be_made
                and stock.supply - self._kept[stock] < stock.pooling.min_warm
                and self._has_place(stock)
                and self._make_now(stock)
            ):
                pass

    @property
    def _room(self) -> Cost:
        """What is free or about to be, less what is promised; overdrawn where it is short."""
        return self.budget.free + self.budget.leaving - self._promised

    def _can_be_lent(self, stock: Stock) -> bool:
        return len(stock.warm) > self._kept[stock] and not self._could_make_room(stock)

    def _could_make_room(self, stock: Stock) -> bool:
        """Tell whether somebody for whom room is kept is short of what an instance takes."""
        return bool(self._promised) and stock.cost.shares(Cost() - self._room)

    def _has_place(self, stock: Stock) -> bool:
        """Tell whether one more may be made, now or after those that are being ended."""
        return stock.size - stock.ending + self._planned[stock] < stock.pooling.max_instances

    def _make(self, stocks: Sequence[Stock]) -> None:
        """Begin to make what can be made now, and plan the others."""
        made = [stock for stock in stocks if self._make_now(stock)]
        later = [stock for stock in stocks if stock not in made]
        self._kept.update(made)
        self._planned.update(later)
        self._promised += _cost_of(later)

    def _make_now(self, stock: Stock) -> bool:
        """Begin to make one, if there are a place and room now that are promised to nobody."""
        if stock.size >= stock.pooling.max_instances:
            return False
        if stock.cost.beyond(self.budget.free) or stock.cost.beyond(self._room):
            return False
        self.make(stock)
        return True

    def _make_room(self, cost: Cost) -> bool:
        """Give up warm instances until there is room; none of them if all are not enough."""
        room = self._room
        missing = cost.beyond(room)
        chosen = []
        for stock, member in self._spare() if missing else ():
            if stock.cost.shares(missing):
                chosen.append((stock, member))
                room += stock.cost
                missing = missing.beyond(stock.cost)
        if missing:
            return False
        for stock, member in chosen:
            if cost.beyond(room - stock.cost):
                self._give_up(stock, member)
            else:
                room -= stock.cost  # Those that were chosen later are enough.
        return True

    def _spare(self) -> list[tuple[Stock, Member]]:
        """List warm instances that are not spoken for: first what nobody waits for, the oldest."""
        wanted = self.line.wanted()
        spare = [
            (stock, member)
            for stock in self.stocks
            for member in stock.warm[: max(0, len(stock.warm) - self._kept[stock])]
        ]
        return sorted(spare, key=lambda pair: (pair[0].spec in wanted, pair[1].made_at))

    def _retire_broken(self, stock: Stock) -> None:
        if stock in self._looked_at:
            return
        self._looked_at.add(stock)
        for member in list(stock.warm):
            if (why := member.fault) is not None:
                self._give_up(stock, member, why)

    def _give_up(self, stock: Stock, member: Member, why: str | None = None) -> None:
        stock.warm.remove(member)
        self.retire(stock, member, why)


def _cost_of(stocks: Sequence[Stock]) -> Cost:
    return sum((stock.cost for stock in stocks), Cost())
