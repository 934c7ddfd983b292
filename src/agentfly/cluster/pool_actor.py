"""The actor that hosts instances of one kind of environment, hundreds of them."""

import asyncio
import functools
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from agentfly.cluster.worker_actor import WorkerActor, answered
from agentfly.errors import DeadlineError, EnvError
from agentfly.resources.placement import Instance, placement_of
from agentfly.resources.placement.instance import BrokenInstanceError
from agentfly.resources.pooling import Pooling
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke
from agentfly.types import EnvSpec


class PoolActor(WorkerActor):
    """Instances by number, each in this process or in a process of its own on this node.

    Which of them are lent, and to whom, is known to the driver's manager alone.
    """

    def __init__(self, import_paths: Sequence[str], spec: bytes, pooling: Pooling) -> None:
        super().__init__(import_paths)
        self._pickled = spec
        self._pooling = pooling
        self._clock = LoopClock()
        self._instances: dict[int, Instance] = {}
        self._making: dict[int, asyncio.Task[Any]] = {}

    @property
    def busy(self) -> int:
        """Number of instances."""
        return len(self._instances) + len(self._making)

    async def make(self, number: int) -> bytes:
        """Make an instance; answer with its methods, and which of them are async."""
        task = asyncio.current_task()
        assert task is not None, "Ray runs methods in tasks"
        self._making[number] = task
        try:
            return await answered(self._make(number))
        finally:
            self._making.pop(number, None)

    async def call(
        self, number: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bytes:
        """Call a method of an instance, or read another attribute."""
        self.calls += 1
        return await answered(self._call(number, name, args, kwargs))

    async def close(self, number: int) -> bytes:
        """End an instance in any state; does nothing the second time."""
        return await answered(self._close(number))

    async def _make(self, number: int) -> Mapping[str, bool]:
        make = placement_of(self._pooling.where)
        instance = await make(self._spec, self._pooling, self._clock)
        self._instances[number] = instance
        return dict(instance.methods)

    @functools.cached_property
    def _spec(self) -> EnvSpec:
        # Read here, so that an environment which can't be imported is an answer, not a crash.
        spec = pickle.loads(self._pickled)
        assert isinstance(spec, EnvSpec), "the driver sends nothing else"
        return spec

    async def _call(
        self, number: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, str | None]:
        """Return the value, and why the instance must not be used again, if so."""
        instance = self._instances[number]
        limits = self._pooling
        seconds = limits.reset_seconds if name == "reset" else limits.call_seconds
        if name in instance.methods:
            called = functools.partial(instance.attribute(name), *args, **kwargs)
        else:
            called = functools.partial(instance.attribute, name)
        deadline = self._clock.now() + seconds
        try:
            value = await invoke(called, name=name, clock=self._clock, deadline=deadline)
        except DeadlineError as error:
            raise BrokenInstanceError(str(error)) from error
        except EnvError as error:
            raise (BrokenInstanceError(instance.unfit) if instance.unfit else error) from error
        return value, instance.unfit

    async def _close(self, number: int) -> None:
        if (making := self._making.get(number)) is not None:
            making.cancel()
        if (instance := self._instances.pop(number, None)) is not None:
            await instance.close()
