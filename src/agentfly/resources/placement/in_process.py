"""Instances in this process."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from agentfly.errors import DeadlineError, EnvError, boundary
from agentfly.resources.placement.instance import methods_of
from agentfly.resources.pooling import Pooling
from agentfly.runtime.invoke import invoke
from agentfly.types import Clock, EnvSpec


async def make_in_process(spec: EnvSpec, pooling: Pooling, clock: Clock) -> "InProcessInstance":
    """Make an instance in a thread, so that a slow constructor does not block the event loop."""
    making = _Making(spec)
    try:
        environment = await _bounded(
            making.make, f"making environment {spec.name}", clock, pooling.make_seconds
        )
    except (asyncio.CancelledError, EnvError):
        if (late := making.give_up()) is not None:
            await InProcessInstance(late, spec, pooling, clock).close()
        raise
    return InProcessInstance(environment, spec, pooling, clock)


class InProcessInstance:
    """An object of this process."""

    unfit = None

    def __init__(self, environment: Any, spec: EnvSpec, pooling: Pooling, clock: Clock) -> None:
        self.environment = environment
        self.methods = methods_of(environment)
        self._name = spec.name
        self._pooling = pooling
        self._clock = clock
        self._closed = False

    def attribute(self, name: str) -> Any:
        """Return the object's own attribute."""
        return getattr(self.environment, name)

    async def close(self) -> None:
        """Call its `close`, if it has one; a thread that hangs in there is abandoned."""
        if not self._closed and "close" in self.methods:
            self._closed = True
            doing = f"closing environment {self._name}"
            with boundary(EnvError, doing):
                close = self.environment.close
            await _bounded(close, doing, self._clock, self._pooling.close_seconds)


async def _bounded(call: Callable[[], Any], doing: str, clock: Clock, seconds: float) -> Any:
    try:
        with boundary(EnvError, doing):
            return await invoke(call, name=doing, clock=clock, deadline=clock.now() + seconds)
    except DeadlineError as error:
        raise EnvError(str(error)) from error


class _Making:
    """Makes an instance, and closes it if its caller has given up by then."""

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
        closing = instance.close() if "close" in methods_of(instance) else None
        return asyncio.run(closing) if inspect.iscoroutine(closing) else None

    def give_up(self) -> Any:
        """Return the instance if it is there already: the caller closes it."""
        with self._lock:
            self._given_up = True
            return self._made
