"""What there is of one kind of environment."""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentfly.resources.placement import Instance, Placement
from agentfly.resources.pooling import Cost, Pooling
from agentfly.types import EnvSpec

if TYPE_CHECKING:
    from agentfly.resources.lease import Lease

LATENCIES = 4096
"""So many last leases tell how long a lease takes."""


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
    """How often an instance was made ready for another chain."""
    crashed: int = 0
    """Broken, hung, unhealthy, or failed to be made."""
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES))
    """Seconds that each of the last leases waited."""
    can_be_made: bool = True
    """False after a failure that nobody waited for, until somebody needs one."""

    cost: Cost = field(init=False)
    """What one instance takes of the budget."""

    def __post_init__(self) -> None:
        self.cost = Cost.of(self.pooling.memory_mb, self.pooling.cpus)

    @property
    def size(self) -> int:
        """Number of instances in any state."""
        return len(self.warm) + len(self.leases) + self.making + self.checking + self.ending

    @property
    def supply(self) -> int:
        """How many are ready, or about to be."""
        return len(self.warm) + self.making + self.checking

    def is_worn(self, member: Member, now: float) -> bool:
        """Tell whether an instance has had its uses or its time."""
        uses, age = member.uses, now - member.made_at
        return uses >= self.pooling.max_uses or age > self.pooling.max_age

    def holders(self, now: float) -> str:
        """Say who holds what, the longest first.

        For example `t/0/1 for 5.2 s, t/0/3 for 0.1 s, …`.
        """
        leases = sorted(self.leases, key=lambda lease: lease.since)
        said = [f"{lease.owner} for {now - lease.since:.1f} s" for lease in leases[:5]]
        return ", ".join([*said, "…"] if len(leases) > len(said) else said)
