"""Make, check and end instances in the background.

So neither a chain's end nor its cancellation waits for any of it. After every change, `on_change`
is called, so that those in the queue are served.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field

from agentfly.errors import AgentFlyError, EnvError, boundary
from agentfly.resources.pool import InstancePool, Member
from agentfly.resources.pooling import Budget
from agentfly.runtime.invoke import invoke
from agentfly.types import Clock

CHECK_SECONDS = 30.0
"""Interval at which warm instances are checked: dead, too old, unhealthy?"""
HEALTH_SECONDS = 10.0
"""Time limit of a health check; an instance that takes longer is unhealthy."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class Maintenance:
    """The tasks that make, check and end instances, within the budget."""

    clock: Clock
    budget: Budget
    on_change: Callable[[], None]
    """Called whenever an instance or a place has become free, or one that was to be is not."""
    on_failure: Callable[[InstancePool, AgentFlyError], None]
    """Called when an instance could not be made."""
    _members: dict[Member, InstancePool] = field(default_factory=dict)
    """All that are not ended yet."""
    _endings: dict[Member, asyncio.Task[None]] = field(default_factory=dict)
    """The instances that are being ended."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _rounds: asyncio.Task[None] | None = None
    _is_closed: bool = False

    def make(self, pool: InstancePool) -> None:
        """Begin to make one more."""
        pool.making += 1
        self.budget.taken += pool.cost
        self._begin(self._make(pool), f"make {pool.spec.name}")

    def shelve(self, pool: InstancePool, member: Member) -> None:
        """Make an instance ready to be lent, and look after it while it is."""
        if self._is_closed:
            self.retire(pool, member)
            return
        pool.warm.append(member)
        may_wait = pool.pooling.may_be_reused or pool.pooling.min_warm
        if may_wait and (self._rounds is None or self._rounds.done()):
            self._rounds = self._begin(self._make_rounds(), "check warm environments")

    def check(self, pool: InstancePool, member: Member) -> None:
        """Ask an instance whether it is healthy, if it has a method for that; then shelve it."""
        if "healthy" not in member.instance.methods:
            self._recycle(pool, member)
            return
        pool.checking += 1
        self._begin(self._check(pool, member), f"check {pool.spec.name}")

    def retire(
        self, pool: InstancePool, member: Member, why: str | None = None
    ) -> asyncio.Task[None] | None:
        """Begin to end an instance; `why` is what is wrong with it, if anything is.

        Return the task that ends it, None if it has ended already.
        """
        ending = self._endings.get(member)
        # One that is done here was cancelled with its loop, perhaps before its first step.
        if member not in self._members or (ending is not None and not ending.done()):
            return ending
        if why is not None:
            pool.crashed += 1
            _log.warning("environment %s is replaced: %s", pool.spec.name, why)
        pool.ending += 1
        self.budget.leaving += pool.cost
        ending = self._begin(self._retire(pool, member), f"close {pool.spec.name}")
        self._endings[member] = ending
        return ending

    async def close(self) -> None:
        """End everything. If this is cancelled, the instances are ended all the same."""
        self._is_closed = True
        for task in self._tasks.difference(self._endings.values()):
            task.cancel()
        for member, pool in list(self._members.items()):
            self.retire(pool, member)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _make(self, pool: InstancePool) -> None:
        doing = f"making environment {pool.spec.name}"
        try:
            with boundary(EnvError, doing):
                instance = await pool.placement(pool.spec, pool.pooling, self.clock)
        except BaseException as error:
            self.budget.taken -= pool.cost
            pool.making -= 1
            if not isinstance(error, AgentFlyError):
                raise
            pool.crashed += 1
            self.on_failure(pool, error)
        else:
            pool.making -= 1
            pool.created += 1
            member = Member(instance, made_at=self.clock.now())
            self._members[member] = pool
            self.shelve(pool, member)
        self.on_change()

    async def _check(self, pool: InstancePool, member: Member) -> None:
        try:
            why = await self._problem_of(pool, member)
        finally:
            pool.checking -= 1
        if why is None:
            self._recycle(pool, member)
        else:
            self.retire(pool, member, why)
        self.on_change()

    def _recycle(self, pool: InstancePool, member: Member) -> None:
        pool.recycled += 1
        self.shelve(pool, member)

    async def _retire(self, pool: InstancePool, member: Member) -> None:
        try:
            await self._end(pool, member)
        finally:
            del self._endings[member]
            pool.ending -= 1
            self.budget.leaving -= pool.cost
        # Not if that was cut off: `close` ends it then.
        del self._members[member]
        self.budget.taken -= pool.cost
        self.on_change()

    async def _end(self, pool: InstancePool, member: Member) -> None:
        try:
            with boundary(EnvError, f"closing environment {pool.spec.name}"):
                await member.instance.close()
        except EnvError:
            # The chain's outcome stands: what failed is only the cleaning up after it.
            _log.exception("environment %s did not close cleanly", pool.spec.name)

    async def _problem_of(self, pool: InstancePool, member: Member) -> str | None:
        """Return what is wrong with an instance; None if it is healthy."""
        if (fault := member.fault) is not None or "healthy" not in member.instance.methods:
            return fault
        name = f"healthy {pool.spec.name}"
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
        while any(pool.warm for pool in self._pools()):
            await self.clock.sleep(CHECK_SECONDS)
            for pool in self._pools():
                pool.can_be_made = True
                for member in list(pool.warm):
                    await self._look_at(pool, member)
                    self.on_change()
            self.on_change()

    async def _look_at(self, pool: InstancePool, member: Member) -> None:
        """Check one that is warm, unless it was lent meanwhile."""
        if member not in pool.warm:
            return
        pool.warm.remove(member)
        if pool.is_worn(member, self.clock.now()):
            self.retire(pool, member)
            return
        pool.checking += 1
        try:
            why = await self._problem_of(pool, member)
        finally:
            pool.checking -= 1
        if why is None:
            # In front: what has not been looked at longest is lent first.
            pool.warm.insert(0, member)
        else:
            self.retire(pool, member, why)

    def _pools(self) -> Iterable[InstancePool]:
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
