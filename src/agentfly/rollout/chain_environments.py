"""A chain's own environments: leased together, reset once, always released."""

import asyncio
import inspect
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

from agentfly.errors import ConfigError, DeadlineError, EnvError, boundary
from agentfly.rollout.chain_time import Stopwatch, TimeLimit
from agentfly.runtime.invoke import invoke
from agentfly.runtime.signature import MISSING
from agentfly.types import Attempt, Clock, EnvSpec, Pool, Seed, SpanKind, Step, Task
from agentfly.types.environment import serving_spec


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
    _first_steps: dict[EnvSpec, Step | None] = field(default_factory=dict)

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
        wanted = self._only() if spec is None else serving_spec(spec, self.specs)
        if wanted not in self.specs:
            known = ", ".join(spec.name for spec in self.specs) or "none"
            raise ConfigError(
                f"this chain has no {wanted.name}: its environments are {known}. Give the agent "
                f"tools of that class, as in tools=[{wanted.name}], or environment={wanted.name}"
            )
        return (await self._leased())[wanted]

    def matching(self, wanted: Sequence[EnvSpec | None]) -> frozenset[EnvSpec]:
        """Return the chain's environments that specs mean; a wrong spec is refused by `get`."""
        only = self.specs if None in wanted else ()
        named = [serving_spec(spec, self.specs) for spec in wanted if spec is not None]
        return frozenset((*only, *named))

    async def first_step(self, spec: EnvSpec) -> Step | None:
        """Return the environment's first observation, from its reset for this task, if any."""
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
        with self.stopwatch.span(SpanKind.QUEUE, f"lease {names}"), self.time.stopped():
            lease = self.pool.lease(
                self.specs,
                owner=self.attempt.chain_id,
                deadline=math.inf,
                patience=self.lease_seconds,
            )
            instances = dict(await self._stack.enter_async_context(lease))
        for spec, instance in instances.items():
            with self.stopwatch.span(SpanKind.ENVIRONMENT, f"reset {spec.name}"):
                self._first_steps[spec] = await self._reset(spec, instance)
        return instances

    async def _reset(self, spec: EnvSpec, instance: Any) -> Step | None:
        """Reset an instance that has a `reset`; return its first observation, if it makes one."""
        if "reset" not in dir(instance):
            return None
        seed = self.attempt.seed.child("env", spec.name)
        args, kwargs = reset_arguments(spec, self.attempt.task, seed)
        said = await call_environment(
            partial(instance.reset, *args, **kwargs),
            f"resetting {spec.name}",
            clock=self.clock,
            deadline=self.time.deadline,
        )
        if said is None or isinstance(said, Step):
            return said
        return Step(observation=str(said))


class CallOrder:
    """Order of one turn's calls: those that receive the same environment run one after another.

        search(shop) ──► click(shop) ──► buy(shop)
        weather()                                       waits for none, and none for it

    A call that raises ends its chain, so those after it are cancelled and never begin.
    """

    def __init__(self, received: Sequence[Collection[EnvSpec]]) -> None:
        """Take the environments of each call, in the order in which the model wrote the calls."""
        self._ended = [asyncio.Event() for _ in received]
        self._before: list[list[asyncio.Event]] = []
        last: dict[EnvSpec, asyncio.Event] = {}
        for specs, ended in zip(received, self._ended, strict=True):
            self._before.append([last[spec] for spec in specs if spec in last])
            last |= dict.fromkeys(specs, ended)

    async def begin(self, place: int) -> None:
        """Wait until the earlier calls with an environment of this one have ended."""
        for ended in self._before[place]:
            await ended.wait()

    def end(self, place: int) -> None:
        """Let the next call with an environment of this one begin."""
        self._ended[place].set()


def reset_arguments(
    spec: EnvSpec, task: Task, seed: Seed
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an environment's `reset`.

    By name, if it takes only `task`, `seed` and fields of the task, or `**fields` for all of them;
    otherwise the task and the seed, in this order.
    """
    given = {**task.fields, "task": task, "seed": seed}
    by_position: tuple[tuple[Any, ...], dict[str, Any]] = ((task, seed), {})
    reset = getattr(spec.instance_class, "reset", None)
    if reset is None:
        return by_position
    parameters = list(inspect.signature(reset).parameters.values())[1:]
    if any(p.kind is p.VAR_POSITIONAL or p.kind is p.POSITIONAL_ONLY for p in parameters):
        return by_position
    named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    missing = [p.name for p in named if p.default is MISSING and p.name not in given]
    if missing and len(named) == len(by_position[0]):
        return by_position
    if missing:
        raise EnvError(
            f"reset of {spec.name} takes {', '.join(map(repr, missing))}, which task {task.id!r} "
            f"lacks. It can take `task`, `seed`, and the task's fields: {', '.join(task.fields)}"
        )
    kwargs = {p.name: given[p.name] for p in named if p.name in given}
    return (), kwargs if len(named) == len(parameters) else {**task.fields, **kwargs}


async def call_environment(
    call: Callable[[], Any], doing: str, *, clock: Clock, deadline: float
) -> Any:
    """Call an environment's method, sync or async; raise EnvError if it raises anything."""
    try:
        with boundary(EnvError, doing):
            return await invoke(call, name=doing, clock=clock, deadline=deadline)
    except DeadlineError as error:
        raise EnvError(str(error)) from error
