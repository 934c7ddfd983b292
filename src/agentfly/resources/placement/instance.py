"""The handle of one environment instance, and the base of those outside this process."""

import functools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from agentfly.errors import EnvError
from agentfly.resources.pooling import Pooling
from agentfly.runtime.invoke import is_async
from agentfly.runtime.threads import WorkerThreads, shared_threads
from agentfly.types import Clock, EnvSpec


class Instance(Protocol):
    """Handle of one environment: in this process, in a worker process or on a server."""

    @property
    def environment(self) -> object | None:
        """The object itself, if it is in this process."""

    @property
    def unfit(self) -> str | None:
        """Why it must not be lent again, as far as is known without a call to it."""

    @property
    def methods(self) -> Mapping[str, bool]:
        """Its methods, and which of them are async."""

    def attribute(self, name: str) -> Any:
        """Return a method, sync or async as its class has it, or another value; in any thread."""

    async def close(self) -> None:
        """End it within `close_seconds`, in any state. May be called again."""


Placement = Callable[[EnvSpec, Pooling, Clock], Awaitable[Instance]]
"""Makes an instance within `make_seconds`, or raises EnvError and leaves nothing behind."""


def methods_of(environment: object) -> dict[str, bool]:
    """List an object's methods, and which of them are async.

    >>> class Shop:
    ...     async def search(self, words): ...
    ...     def buy(self): ...
    >>> methods_of(Shop())
    {'buy': False, 'search': True}
    """
    kind = type(environment)
    # Looked up on the class, or every property would be computed.
    found = {name: getattr(kind, name, None) for name in dir(kind) if name[:2] != "__"}
    methods = {name: own for name, own in found.items() if not isinstance(own, type)}
    return {name: is_async(own) for name, own in methods.items() if callable(own)}


class RemoteInstance(ABC):
    """An instance in a worker process or on a server; each call sends a message and waits.

    A subclass gives `_exchange`, `_stop` and `end`. An exchange that breaks makes the instance
    unfit for any later call: its state is unknown.
    """

    environment = None

    def __init__(self, spec: EnvSpec, pooling: Pooling, methods: Mapping[str, bool]) -> None:
        self.name = spec.name
        self._pooling = pooling
        self.methods = methods
        self._one_call_at_a_time = threading.Lock()
        self._fault: str | None = None

    @property
    def unfit(self) -> str | None:
        """Why it must not be lent again, if so."""
        return self._fault

    def attribute(self, name: str) -> Any:
        """Return a method as its class has it, sync or async; any other attribute by its value."""
        if name not in self.methods:
            return self._call(name)
        if not self.methods[name]:
            return functools.partial(self._call, name)

        async def method(*args: Any, **kwargs: Any) -> Any:
            call = functools.partial(self._call, name, *args, **kwargs)
            return await shared_threads().run(call, name=f"{name} {self.name}")

        return method

    async def close(self) -> None:
        """Call its `close`, if it has one and is not broken or busy, then end it in any case."""
        try:
            await in_manager_thread(self._close_environment, f"close {self.name}")
        finally:
            await self.end()

    def _close_environment(self) -> None:
        if self._fault is None and self._one_call_at_a_time.acquire(blocking=False):
            try:
                if "close" in self.methods:
                    self._exchange_guarded("close", (), {}, self._pooling.close_seconds)
            finally:
                self._fault = "it is closed"
                self._one_call_at_a_time.release()

    def _call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        seconds = self._seconds_for(name)
        if not self._one_call_at_a_time.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            raise EnvError(f"{self.name} was busy with other calls for {seconds:g} s")
        try:
            return self._exchange_guarded(name, args, kwargs, seconds)
        finally:
            self._one_call_at_a_time.release()

    def _seconds_for(self, name: str) -> float:
        return self._pooling.reset_seconds if name == "reset" else self._pooling.call_seconds

    def _exchange_guarded(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], seconds: float
    ) -> Any:
        with self._guarded(name, seconds):
            return self._exchange(name, args, kwargs, time.monotonic() + seconds)

    @contextmanager
    def _guarded(self, name: str, seconds: float) -> Iterator[None]:
        """Refuse a call of a broken instance; make one that breaks unfit for any other."""
        if self._fault is not None:
            raise EnvError(f"{self.name} can't be used any more: {self._fault}")
        try:
            yield
        except BrokenInstanceError as error:
            reason = str(error) or f"{name} did not answer within {seconds:g} s"
            self._fault = reason
            self._stop()
            raise EnvError(f"{self.name} broke: {reason}") from error.__cause__

    @abstractmethod
    def _exchange(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], deadline: float
    ) -> Any:
        """Call and return, or raise what the environment raised, or BrokenInstanceError."""

    @abstractmethod
    def _stop(self) -> None:
        """Stop at once what hangs or sends invalid data; `end` frees the rest."""

    @abstractmethod
    async def end(self) -> None:
        """Free everything, however often it is called."""


class BrokenInstanceError(Exception):
    """The other side died, sent invalid data or, without a message, did not answer in time."""


async def in_manager_thread(call: Callable[[], Any], name: str) -> Any:
    """Run blocking work of the manager in threads apart from the tools', which may all be busy."""
    return await _threads().run(call, name=name)


@functools.cache
def _threads() -> WorkerThreads:
    return WorkerThreads(size=64)
