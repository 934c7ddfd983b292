"""A pool that makes a new instance for every lease and closes it afterwards."""

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from agentfly.errors import DeadlineError, EnvError, LeaseTimeout, boundary
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke
from agentfly.types import Clock, EnvSpec

CLOSE_SECONDS = 10.0
"""An environment that can't close in this time is abandoned, not waited for."""

_log = logging.getLogger(__name__)


class FreshPool:
    """Bounds how many chains hold environments at once; nothing is ever reused."""

    def __init__(self, *, max_leases: int = 256, clock: Clock | None = None) -> None:
        self._clock = clock or LoopClock()
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )
        self._max_leases = max_leases
        self._holders: dict[str, float] = {}

    @asynccontextmanager
    async def lease(
        self, specs: Sequence[EnvSpec], *, owner: str, deadline: float
    ) -> AsyncIterator[Mapping[EnvSpec, Any]]:
        """Lease one new instance of each spec together."""
        await self._take_place(owner, deadline)
        try:
            async with AsyncExitStack() as stack:
                instances = {}
                for spec in dict.fromkeys(specs):
                    instances[spec] = await self._make(spec, deadline)
                    stack.push_async_callback(self._close, spec, instances[spec])
                yield instances
        finally:
            del self._holders[owner]
            self._place().release()

    def _place(self) -> asyncio.Semaphore:
        """Return the places of the running loop: a semaphore serves one loop only."""
        loop = asyncio.get_running_loop()
        return self._places.setdefault(loop, asyncio.Semaphore(self._max_leases))

    async def _take_place(self, owner: str, deadline: float) -> None:
        try:
            async with self._clock.timeout_at(deadline):
                await self._place().acquire()
        except TimeoutError as error:
            now = self._clock.now()
            held = [f"{name} for {now - since:.1f} s" for name, since in self._holders.items()]
            raise LeaseTimeout(
                f"no environment became free for {owner}: all {self._max_leases} places are held "
                f"(by {', '.join(held[:5])}, …). Raise max_leases, or end those chains sooner"
            ) from error
        self._holders[owner] = self._clock.now()

    async def _make(self, spec: EnvSpec, deadline: float) -> Any:
        making = _Making(spec)
        try:
            with boundary(EnvError, f"making environment {spec.name}"):
                return await invoke(
                    making.make, name=f"make {spec.name}", clock=self._clock, deadline=deadline
                )
        except (asyncio.CancelledError, DeadlineError) as error:
            if (late := making.give_up()) is not None:
                await self._close(spec, late)
            if isinstance(error, DeadlineError):
                raise EnvError(str(error)) from error
            raise

    async def _close(self, spec: EnvSpec, instance: Any) -> None:
        deadline = self._clock.now() + CLOSE_SECONDS
        try:
            with boundary(EnvError, f"closing environment {spec.name}"):
                await invoke(
                    instance.close, name=f"close {spec.name}", clock=self._clock, deadline=deadline
                )
        except (EnvError, DeadlineError):
            # The chain's outcome stands: what failed is only the cleaning up after it.
            _log.exception("environment %s did not close cleanly", spec.name)


class _Making:
    """Makes an instance in a thread, and closes it if nobody waits for it any more by then."""

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._made: Any = None
        self._given_up = False

    def make(self) -> Any:
        instance = self._spec.make()
        with self._lock:
            self._made = instance
            if not self._given_up:
                return instance
        closing = instance.close()
        return asyncio.run(closing) if inspect.iscoroutine(closing) else None

    def give_up(self) -> Any:
        """Return the instance if it is there already: the caller closes it."""
        with self._lock:
            self._given_up = True
            return self._made
