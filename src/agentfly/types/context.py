"""What tools and rewards may ask for beside their own arguments."""

import random
from dataclasses import dataclass, field
from typing import Any

from agentfly.types.protocols import Clock, Environments
from agentfly.types.seed import Seed
from agentfly.types.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a call stands. Each call gets its own, with its own generator."""

    task: Task
    group_id: str
    chain_id: str | None
    """None for a group reward, which belongs to no single chain."""
    turn: int
    seed: Seed
    clock: Clock
    deadline: float
    """On `clock`; infinite if there is none."""
    environments: Environments
    metadata: dict[str, Any] = field(default_factory=dict)
    """One dict per chain, kept with its trajectory: JSON values only."""
    _rng: random.Random | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def rng(self) -> random.Random:
        """A generator that is seeded for this call alone."""
        if self._rng is None:
            object.__setattr__(self, "_rng", self.seed.random())
        assert self._rng is not None, "it was just made"
        return self._rng
