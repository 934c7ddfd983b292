"""Settings for the instances of one kind of environment: where, how many, for how long."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from agentfly.errors import ConfigError
from agentfly.runtime.http.address import split_token
from agentfly.types.environment import plain_factory


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
    thread-safe; `"http://..."` for a server of environments, with `?token=...` behind it or the
    token next to it."""
    token: str | None = field(default=None, repr=False)
    """The secret of that server. It is taken out of `where`, and never shown or logged."""
    min_warm: int = 0
    """Number of instances to keep ready in addition to those that are lent."""
    max_instances: int = 256
    """Maximum number of instances at once, in any state."""
    max_uses: int = 1
    """Maximum number of chains that use one instance in turn, each after a `reset`. More than 1
    is for environments whose `reset` forgets everything."""
    max_age: float = 3600.0
    """Seconds after which an instance is replaced when it comes back."""
    memory_mb: float = 0.0
    """Memory that one instance takes of the manager's budget. A process that uses more is
    replaced when it comes back."""
    cpus: float = 0.0
    """CPUs that one instance takes of the manager's budget."""
    make_seconds: float = 60.0
    reset_seconds: float = 60.0
    """Time limit of `reset` in a process or behind HTTP; here, the chain's deadline applies."""
    call_seconds: float = 60.0
    """Time limit of any other call; the instance of one that takes longer is ended."""
    close_seconds: float = 10.0
    """Time limit of `close`; an instance that takes longer is killed or abandoned."""

    def __post_init__(self) -> None:
        self._take_token_out_of_address()
        for one in fields(self):
            if one.name in ("where", "token"):
                continue
            value = getattr(self, one.name)
            at_least_zero = one.name in ("min_warm", "memory_mb", "cpus")
            if not (value > 0 or (at_least_zero and value == 0)):
                bound = "at least 0" if at_least_zero else "greater than 0"
                raise ConfigError(f"{one.name} must be {bound}, got {value!r}")
        if self.min_warm > self.max_instances:
            raise ConfigError(
                f"min_warm={self.min_warm} can't be kept: max_instances is {self.max_instances}"
            )

    def _take_token_out_of_address(self) -> None:
        if "://" not in self.where and ":" in self.where:
            raise ConfigError(
                f"the address {self.where.partition('?')[0]!r} has no http:// or https:// in "
                "front: write it as 'http://host:8700/?token=...'"
            )
        where, token = split_token(self.where) if "://" in self.where else (self.where, None)
        if token is not None:
            if self.token not in (None, token):
                raise ConfigError(f"the address {where} carries another token than `token`")
            object.__setattr__(self, "where", where)
            object.__setattr__(self, "token", token)

    @property
    def may_be_reused(self) -> bool:
        """Whether an instance may outlive its first lease."""
        return self.max_uses > 1


def pooling_of(factory: Callable[..., Any], table: Mapping[Any, Pooling] | None = None) -> Pooling:
    """Return the table's entry, else the factory's own attribute, else the defaults."""
    plain = plain_factory(factory)
    own = getattr(plain, "pooling", None)
    pooling = (table or {}).get(factory) or (table or {}).get(plain) or own or Pooling()
    if not isinstance(pooling, Pooling):
        raise ConfigError(
            f"the attribute `pooling` of {getattr(factory, '__qualname__', factory)!r} must be a "
            f"Pooling such as Pooling(max_uses=50), got {pooling!r}"
        )
    return pooling


_UNITS = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Memory and CPU, in millionths of a MB and of a CPU.

    Whole numbers, so that what was taken and given back in any order adds up to nothing.

    >>> Cost.of(0.1, 0) + Cost.of(0.2, 0) == Cost.of(0.3, 0)
    True
    """

    memory: float = 0
    cpus: float = 0

    @classmethod
    def of(cls, memory_mb: float, cpus: float) -> "Cost":
        """Convert from the units of `Pooling`."""
        return cls(_whole(memory_mb), _whole(cpus))

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.memory + other.memory, self.cpus + other.cpus)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.memory - other.memory, self.cpus - other.cpus)

    def __bool__(self) -> bool:
        return self.memory != 0 or self.cpus != 0

    def beyond(self, room: "Cost") -> "Cost":
        """Return how much of it does not fit into `room`.

        What it takes none of always fits, even where `room` is overdrawn.

        >>> Cost(5, 0).beyond(Cost(3, -1))
        Cost(memory=2, cpus=0)
        """
        return Cost(_beyond(self.memory, room.memory), _beyond(self.cpus, room.cpus))

    def shares(self, other: "Cost") -> bool:
        """Return whether there is anything that both of them take."""
        return min(self.memory, other.memory) > 0 or min(self.cpus, other.cpus) > 0


def _whole(amount: float) -> float:
    return amount if math.isinf(amount) else round(amount * _UNITS)


def _beyond(wanted: float, room: float) -> float:
    return max(0, wanted - room) if wanted > 0 else 0


class Budget:
    """Memory and CPU that all instances together may take, and what they do take."""

    def __init__(self, *, memory_mb: float = math.inf, cpus: float = math.inf) -> None:
        self.memory_mb = memory_mb
        self.cpus = cpus
        self.total = Cost.of(memory_mb, cpus)
        self.taken = Cost()
        """The part taken by instances in any state."""
        self.leaving = Cost()
        """The part taken by instances that are being ended, which will be free soon."""

    @property
    def free(self) -> Cost:
        """The part that may be taken now."""
        return self.total - self.taken

    def __str__(self) -> str:
        return f"{self.memory_mb:g} MB and {self.cpus:g} CPUs"
