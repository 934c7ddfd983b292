"""Make, check and end instances in the background.

So neither a chain's end nor its cancellation waits for any of it. After every change, `on_change`
is called, so that those in line are served.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field

from agentfly.errors import AgentFlyError, EnvError, boundary
from agentfly.resources.pooling import Budget
from agentfly.resources.stock import Member, Stock
from agentfly.runtime.invoke import invoke
from agentfly.types import Clock

CHECK_SECONDS = 30.0
"""How often those that are warm are looked at: dead, too old, unhealthy?"""
HEALTH_SECONDS = 10.0
"""An instance that takes longer to say that it is healthy is not."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class Upkeep:
    """Keeps instances in order, within the budget."""

    clock: Clock
    budget: Budget
    on_change: Callable[[], None]
    """Called whenever an instance or a place has become free, or one that was to be is not."""
    on_failure: Callable[[Stock, AgentFlyError], None]
    """Called when an instance could not be made."""
    _members: dict[Member, Stock] = field(default_factory=dict)
    """All that are not ended yet."""
    _endings: dict[Member, asyncio.Task[None]] = field(default_factory=dict)
    """Those of them that are being ended."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _rounds: asyncio.Task[None] | None = None
    _is_closed: bool = False

    def make(self, stock: Stock) -> None:
        """Begin to make one more."""
        stock.making += 1
        self.budget.taken += stock.cost
        self._begin(self._make(stock), f"make {stock.spec.name}")

    def shelve(self, stock: Stock, member: Member) -> None:
        """Make an instance ready to be lent, and look after it while it is."""
        if self._is_closed:
            self.retire(stock, member)
            return
        stock.warm.append(member)
        may_wait = stock.pooling.may_be_reused or stock.pooling.min_warm
        if may_wait and (self._rounds is None or self._rounds.done()):
            self._rounds = self._begin(self._make_rounds(), "check warm environments")

    def check(self, stock: Stock, member: Member) -> None:
        """Ask an instance whether it is healthy, if it has a method for that; then shelve it."""
        if "healthy" not in member.instance.methods:
            self._recycle(stock, member)
            return
        stock.checking += 1
        self._begin(self._check(stock, member), f"check {stock.spec.name}")

    def retire(
        self, stock: Stock, member: Member, why: str | None = None
    ) -> asyncio.Task[None] | None:
        """Begin to end an instance; `why` says what is wrong with it, if anything is.

        Return the task that ends it, None if it has ended already.
        """
        ending = self._endings.get(member)
        # One that is done here was cancelled with its loop, perhaps before its first step.
        if member not in self._members or (ending is not None and not ending.done()):
            return ending
        if why is not None:
            stock.crashed += 1
            _log.warning("environment %s is replaced: %s", stock.spec.name, why)
        stock.ending += 1
        self.budget.leaving += stock.cost
        ending = self._begin(self._retire(stock, member), f"close {stock.spec.name}")
        self._endings[member] = ending
        return ending

    async def close(self) -> None:
        """End everything. If this is cancelled, the instances are ended all the same."""
        self._is_closed = True
        for task in self._tasks.difference(self._endings.values()):
            task.cancel()
        for member, stock in list(self._members.items()):
            self.retire(stock, member)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _make(self, stock: Stock) -> None:
        doing = f"making environment {stock.spec.name}"
        try:
            with boundary(EnvError, doing):
                instance = await stock.home(stock.spec, stock.pooling, self.clock)
        except BaseException as error:
            self.budget.taken -= stock.cost
            stock.making -= 1
            if not isinstance(error, AgentFlyError):
                raise
            stock.crashed += 1
            self.on_failure(stock, error)
        else:
            stock.making -= 1
            stock.created += 1
            member = Member(instance, made_at=self.clock.now())
            self._members[member] = stock
            self.shelve(stock, member)
        self.on_change()

    async def _check(self, stock: Stock, member: Member) -> None:
        try:
            why = await self._problem_of(stock, member)
        finally:
            stock.checking -= 1
        if why is None:
            self._recycle(stock, member)
        else:
            self.retire(stock, member, why)
        self.on_change()

    def _recycle(self, stock: Stock, member: Member) -> None:
        stock.recycled += 1
        self.shelve(stock, member)

    async def _retire(self, stock: Stock, member: Member) -> None:
        try:
            await self._end(stock, member)
        finally:
            del self._endings[member]
            stock.ending -= 1
            self.budget.leaving -= stock.cost
        # Not if that was cut off: `close` ends it then.
        del self._members[member]
        self.budget.taken -= stock.cost
        self.on_change()

    async def _end(self, stock: Stock, member: Member) -> None:
        try:
            with boundary(EnvError, f"closing environment {stock.spec.name}"):
                await member.instance.close()
        except EnvError:
            # The chain's outcome stands: what failed is only the cleaning up after it.
            _log.exception("environment %s did not close cleanly", stock.spec.name)

    async def _problem_of(self, stock: Stock, member: Member) -> str | None:
        """Return what is wrong with an instance; None if it is healthy."""
        if (fault := member.fault) is not None or "healthy" not in member.instance.methods:
            return fault
        name = f"healthy {stock.spec.name}"
        deadline = self.clock.now() + HEALTH_SECONDS
        try:
            with boundary(EnvError, name):
                asked = member.instance.attribute("healthy")
                is_healthy = await invoke(asked, name=name, clock=self.clock, deadline=deadline)
        except AgentFlyError as error:
            return str(error)
        return None if is_healthy else "it says that it is not healthy"

    async def _make_rounds(self) -> None:
        """Look after those that are warm, for as long as there are any."""
        while any(stock.warm for stock in self._stocks()):
            await self.clock.sleep(CHECK_SECONDS)
            for stock in self._stocks():
                stock.can_be_made = True
                for member in list(stock.warm):
                    await self._look_at(stock, member)
                    self.on_change()
            self.on_change()

    async def _look_at(self, stock: Stock, member: Member) -> None:
        """Check one that is warm, unless it was lent meanwhile."""
        if member not in stock.warm:
            return
        stock.warm.remove(member)
        if stock.is_worn(member, self.clock.now()):
            self.retire(stock, member)
            return
        stock.checking += 1
        try:
            why = await self._problem_of(stock, member)
        finally:
            stock.checking -= 1
        if why is None:
            # In front: what has not been looked at longest is lent first.
            stock.warm.insert(0, member)
        else:
            self.retire(stock, member, why)

    def _stocks(self) -> Iterable[Stock]:
        return dict.fromkeys(self._members.values())

    def _begin(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)
