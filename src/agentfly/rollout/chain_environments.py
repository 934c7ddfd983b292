"""A chain's own environments: leased together, reset once, always released."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

from agentfly.errors import ConfigError, DeadlineError, EnvError, boundary
from agentfly.rollout.chain_time import Stopwatch, TimeLimit
from agentfly.runtime.invoke import invoke
from agentfly.types import Attempt, Clock, EnvSpec, Pool, SpanKind, Step


@dataclass(slots=True)
class ChainEnvironments:
    """Environments of one chain, all leased at once when the first of them is needed.

    Leasing them together keeps chains that need two kinds from deadlocking.
    """

    pool: Pool
    specs: tuple[EnvSpec, ...]
    attempt: Attempt
    clock: Clock
    stopwatch: Stopwatch
    lease_seconds: float
    time: TimeLimit
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _instances: dict[EnvSpec, Any] | None = None
    _first_steps: dict[EnvSpec, Step] = field(default_factory=dict)

    async def __aenter__(self) -> "ChainEnvironments":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def get(self, spec: EnvSpec | None) -> Any:
        """Return the instance for a spec; None means the chain's only environment."""
        wanted = self._only() if spec is None else spec
        if wanted not in self.specs:
            raise ConfigError(f"environment {wanted.name} was not declared by any tool or reward")
        return (await self._leased())[wanted]

    async def first_step(self, spec: EnvSpec) -> Step:
        """Return the environment's first observation, from its reset for this task."""
        await self._leased()
        return self._first_steps[spec]

    def _only(self) -> EnvSpec:
        if len(self.specs) != 1:
            names = ", ".join(spec.name for spec in self.specs) or "none"
            raise ConfigError(
                "a parameter `env` without a class means the chain's only environment, but this "
                f"chain has {len(self.specs)} ({names}): annotate it with the class, or pass env="
            )
        return self.specs[0]

    async def _leased(self) -> dict[EnvSpec, Any]:
        async with self._lock:
            if self._instances is None:
                self._instances = await self._lease()
        return self._instances

    async def _lease(self) -> dict[EnvSpec, Any]:
        names = ", ".join(spec.name for spec in self.specs)
        deadline = self.clock.now() + self.lease_seconds
        with self.stopwatch.span(SpanKind.QUEUE, f"lease {names}"), self.time.stopped():
            lease = self.pool.lease(self.specs, owner=self.attempt.chain_id, deadline=deadline)
            instances = dict(await self._stack.enter_async_context(lease))
        for spec, instance in instances.items():
            with self.stopwatch.span(SpanKind.ENVIRONMENT, f"reset {spec.name}"):
                self._first_steps[spec] = await self._reset(spec, instance)
        return instances

    async def _reset(self, spec: EnvSpec, instance: Any) -> Step:
        seed = self.attempt.seed.child("env", spec.name)
        said = await call_environment(
            partial(instance.reset, self.attempt.task, seed),
            f"resetting {spec.name}",
            clock=self.clock,
            deadline=self.time.deadline,
        )
        return said if isinstance(said, Step) else Step(observation=str(said))


async def call_environment(
    call: Callable[[], Any], doing: str, *, clock: Clock, deadline: float
) -> Any:
    """Call an environment's method, sync or async; raise EnvError if it raises anything."""
    try:
        with boundary(EnvError, doing):
            return await invoke(call, name=doing, clock=clock, deadline=deadline)
    except DeadlineError as error:
        raise EnvError(str(error)) from error
