"""An instance in a chain's hands, from the lease to its end and not a moment longer.

A tool whose time ran out may still run in a thread, and call its environment when that is another
chain's already. So what may be used again is lent through a handle, which is dead after the lease.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agentfly.errors import EnvError, ToolError
from agentfly.resources.pool import InstancePool, Member
from agentfly.runtime.invoke import is_async

_CHANGES_STATE = ("reset", "step")
"""What fails in these leaves an unknown state behind."""


class Lease:
    """One instance, lent to one chain."""

    def __init__(self, pool: InstancePool, member: Member, owner: str, since: float) -> None:
        self.pool = pool
        self.member = member
        self.owner = owner
        self.since = since
        self._lock = threading.Lock()
        self._under_way: list[str] = []
        self._fault: str | None = None
        self._is_clean = member.uses == 0
        self._has_ended = False

    @property
    def value(self) -> Any:
        """What the chain is given: a handle, or the object itself where nobody uses it after."""
        own = self.member.instance.environment
        return own if own is not None and not self.pool.pooling.may_be_reused else Handle(self)

    def end(self) -> str | None:
        """Take it back; return why it can't be lent again, if so."""
        with self._lock:
            self._has_ended = True
            if self._under_way:
                return f"{self._under_way[0]} was still running at the end of the lease"
            return self._fault or self.member.fault

    def attribute(self, name: str) -> Any:
        """Return an attribute of the environment, a method as one that is watched."""
        with self._called(name):
            value = self.member.instance.attribute(name)
        if not callable(value):
            return value
        if name == "close":
            value = self._left_to_the_manager(value)
        return self._watched_async(name, value) if is_async(value) else self._watched(name, value)

    def _watched(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._called(name):
                result = method(*args, **kwargs)
                self._is_clean |= name == "reset"
                return result

        return call

    def _watched_async(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self._called(name):
                result = await method(*args, **kwargs)
                self._is_clean |= name == "reset"
                return result

        return call

    def _left_to_the_manager(self, close: Callable[..., Any]) -> Callable[..., Any]:
        """Only note that the chain has done with it: its place must not be lost with it."""

        def note() -> None:
            self._fault = "it was closed by its chain"

        async def note_async() -> None:
            note()

        return note_async if is_async(close) else note

    @contextmanager
    def _called(self, name: str) -> Iterator[None]:
        self._begin(name)
        try:
            yield
        except BaseException as error:
            was_cut = not isinstance(error, Exception)
            if was_cut or (name in _CHANGES_STATE and not isinstance(error, ToolError)):
                self._fault = f"{name} raised {type(error).__name__}: {error}"
            raise
        finally:
            with self._lock:
                self._under_way.remove(name)

    def _begin(self, name: str) -> None:
        environment = self.pool.spec.name
        with self._lock:
            if self._has_ended:
                raise EnvError(f"{environment} was given back: {name} came after the lease's end")
            if not self._is_clean and name not in ("reset", "close"):
                raise EnvError(f"{environment} was used before: reset it before calling {name}")
            self._under_way.append(name)


class Handle:
    """Stands for an environment that lives elsewhere or longer: the same methods and attributes."""

    __slots__ = ("_lease",)
    _lease: Lease

    def __init__(self, lease: Lease) -> None:
        object.__setattr__(self, "_lease", lease)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # Asked by Python itself, to copy or to inspect.
        return self._lease.attribute(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{name} can't be set from outside on {self!r}: give the environment a method for it"
        )

    def __dir__(self) -> list[str]:
        return sorted(self._lease.member.instance.methods)

    def __repr__(self) -> str:
        return f"<{self._lease.pool.spec.name} lent to {self._lease.owner}>"
