"""How the instances of one kind of environment are kept: where, how many, for how long."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from agentfly.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """The class attribute `pooling` of an environment, or an entry of the manager's own table.

    >>> class Shop:
    ...     pooling = Pooling(where="process", max_instances=8, max_uses=50)
    >>> pooling_of(Shop).max_uses, pooling_of(dict).max_uses
    (50, 1)
    """

    where: str = "here"
    """`"here"` in this process; `"process"` for a process each, for what blocks, crashes or is not
    thread-safe; `"http://..."` for a server of environments."""
    min_warm: int = 0
    """How many to keep ready beside those that are lent."""
    max_instances: int = 256
    """How many there may be at once, in whatever state."""
    max_uses: int = 1
    """How many chains may use one instance, one after another, each after a `reset`. More than 1
    is for environments whose `reset` forgets everything."""
    max_age: float = 3600.0
    """Seconds after which an instance is replaced when it comes back."""
    memory_mb: float = 0.0
    """What one instance takes of the manager's budget. A process that is found to use more is
    replaced when it comes back."""
    cpus: float = 0.0
    """What one instance takes of the manager's budget."""
    make_seconds: float = 60.0
    reset_seconds: float = 60.0
    """For one in a process or behind HTTP; a call in this process has the chain's own deadline."""
    call_seconds: float = 60.0
    """For any other call; one that takes longer hangs, and its instance is ended."""
    close_seconds: float = 10.0
    """What can't close in this time is ended or abandoned, not waited for."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            at_least_zero = field.name in ("min_warm", "memory_mb", "cpus")
            if field.name != "where" and not (value > 0 or (at_least_zero and value == 0)):
                bound = "at least 0" if at_least_zero else "greater than 0"
                raise ConfigError(f"{field.name} must be {bound}, got {value!r}")
        if self.min_warm > self.max_instances:
            raise ConfigError(
                f"min_warm={self.min_warm} can't be kept: max_instances is {self.max_instances}"
            )

    @property
    def may_be_reused(self) -> bool:
        """Whether an instance may outlive its first lease."""
        return self.max_uses > 1


def pooling_of(factory: Callable[..., Any], table: Mapping[Any, Pooling] | None = None) -> Pooling:
    """Return what the table says, else the factory's own attribute, else the defaults."""
    pooling = (table or {}).get(factory) or getattr(factory, "pooling", None) or Pooling()
    if not isinstance(pooling, Pooling):
        raise ConfigError(
            f"the attribute `pooling` of {getattr(factory, '__qualname__', factory)!r} must be a "
            f"Pooling such as Pooling(max_uses=50), got {pooling!r}"
        )
    return pooling


@dataclass(slots=True, kw_only=True)
class Budget:
    """Memory and CPU of all instances together."""

    memory_mb: float = math.inf
    cpus: float = math.inf
    _memory_taken: float = 0.0
    _cpus_taken: float = 0.0

    def fits(self, pooling: Pooling, *, besides: "Budget | None" = None) -> bool:
        """Tell whether one more fits, were what `besides` has taken given back already."""
        memory = self._memory_taken - (besides._memory_taken if besides else 0.0)
        cpus = self._cpus_taken - (besides._cpus_taken if besides else 0.0)
        return memory + pooling.memory_mb <= self.memory_mb and cpus + pooling.cpus <= self.cpus

    def and_also(self, pooling: Pooling) -> "Budget":
        """Return a copy that has taken one more."""
        copy = replace(self)
        copy.take(pooling)
        return copy

    def take(self, pooling: Pooling) -> None:
        """Count one more instance."""
        self._memory_taken += pooling.memory_mb
        self._cpus_taken += pooling.cpus

    def give(self, pooling: Pooling) -> None:
        """Count one instance less."""
        self._memory_taken -= pooling.memory_mb
        self._cpus_taken -= pooling.cpus
