"""The central manager: every chain's environments come from here and go back here."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

from agentfly.resources.dispatcher import Dispatcher
from agentfly.resources.pooling import Budget, Pooling, pooling_of
from agentfly.resources.snapshot import Snapshot, snapshot_of
from agentfly.runtime.clock import LoopClock
from agentfly.types import Clock, EnvSpec

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
    ) -> None:
        self._table = dict(pooling or {})
        self._memory_mb = memory_mb
        self._cpus = cpus
        self._clock = clock or LoopClock()
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()

    @asynccontextmanager
    async def lease(
        self, specs: Sequence[EnvSpec], *, owner: str, deadline: float, priority: int = 0
    ) -> AsyncIterator[Mapping[EnvSpec, Any]]:
        """Lease one instance of each spec together; raise LeaseTimeout at the deadline.

        Those with a smaller `priority` come first; within one, those who came first.
        """
        dispatcher = await self._dispatcher()
        leases = await dispatcher.take(specs, owner=owner, deadline=deadline, priority=priority)
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
        return snapshot_of(session.dispatcher if session else None)

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
            lambda spec: pooling_of(spec.factory, self._table), budget, self._clock
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
