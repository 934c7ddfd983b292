"""The instances of one kind of environment, and their leases.

A tool whose time ran out may still run in a thread, and call its environment when that is already
another chain's. So instances that may be used again are lent through a handle, which is dead after
the lease.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agentfly.errors import EnvError, ToolError
from agentfly.resources.placement import Instance, Placement
from agentfly.resources.pooling import Cost, Pooling
from agentfly.runtime.invoke import is_async
from agentfly.types import EnvSpec

LATENCIES = 4096
"""Number of recent leases whose waiting times are kept."""


@dataclass(eq=False, slots=True)
class Member:
    """One instance, and its life so far."""

    instance: Instance
    made_at: float
    uses: int = 0

    @property
    def fault(self) -> str | None:
        """Why it must not be lent, as far as is known without asking it."""
        try:
            return self.instance.unfit
        except Exception as error:  # noqa: BLE001 - an instance that can't be looked at is replaced
            return f"looking at it raised {type(error).__name__}: {error}"


@dataclass(eq=False, slots=True, kw_only=True)
class InstancePool:
    """All instances of one spec, by state; and what has happened to those before."""

    spec: EnvSpec
    pooling: Pooling
    placement: Placement
    warm: list[Member] = field(default_factory=list)
    """Ready to be lent; the last is the next."""
    leases: set["Lease"] = field(default_factory=set)
    making: int = 0
    checking: int = 0
    """Given back, and asked whether they are healthy."""
    ending: int = 0
    created: int = 0
    recycled: int = 0
    """Number of times that an instance was made ready for another chain."""
    crashed: int = 0
    """Broken, hung, unhealthy, or failed to be made."""
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES))
    """Seconds that each of the last leases waited."""
    lent_at: float = -math.inf
    """When an instance was last lent."""
    can_be_made: bool = True
    """False after a failure without waiters, until a chain needs one."""

    cost: Cost = field(init=False)
    """The share of the budget that one instance takes."""

    def __post_init__(self) -> None:
        self.cost = Cost.of(self.pooling.memory_mb, self.pooling.cpus)

    @property
    def size(self) -> int:
        """Number of instances in any state."""
        return len(self.warm) + len(self.leases) + self.making + self.checking + self.ending

    @property
    def supply(self) -> int:
        """Number of instances that are ready, or about to be."""
        return len(self.warm) + self.making + self.checking

    def is_worn(self, member: Member, now: float) -> bool:
        """Return whether an instance has reached its maximum of uses or age."""
        uses, age = member.uses, now - member.made_at
        return uses >= self.pooling.max_uses or age > self.pooling.max_age

    def holders(self, now: float) -> str:
        """Describe who holds an instance, the longest first.

        For example `t/0/1 for 5.2 s, t/0/3 for 0.1 s, …`.
        """
        leases = sorted(self.leases, key=lambda lease: lease.since)
        said = [f"{lease.owner} for {now - lease.since:.1f} s" for lease in leases[:5]]
        return ", ".join([*said, "…"] if len(leases) > len(said) else said)


_CHANGES_STATE = ("reset", "step")
"""Methods whose failure leaves an unknown state behind."""


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
        """The object that the chain gets: a handle, or the environment itself if used once."""
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
        """Replace `close` by a note that the chain is done: the manager itself closes instances."""

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
    """A proxy of a leased environment, with the same methods and attributes."""

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
