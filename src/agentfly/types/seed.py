"""Seed tree: run → task → chain → turn → token position.

Every random choice depends on its path in the tree, never on a shared generator, so no outcome
depends on the order in which chains run.
"""

import random
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Seed:
    """Node of the seed tree.

    >>> Seed(7).child("task", "a").child(0) == Seed(7).child("task", "a", 0)
    True
    >>> Seed(7).child("1") == Seed(7).child(1)
    False
    """

    value: int
    """64 bits."""

    def __post_init__(self) -> None:
        if not 0 <= self.value < 2**64:
            raise ValueError(f"a seed has 64 bits: expected 0 to 2**64 - 1, got {self.value}")

    def child(self, *path: str | int) -> "Seed":
        """Return a descendant, by names and counters."""
        node = self.value.to_bytes(8)
        for step in path:
            node = blake2b(node + repr(step).encode(), digest_size=8).digest()
        return Seed(int.from_bytes(node))

    def uniform(self) -> float:
        """Return this node's own number in [0, 1)."""
        return (self.value >> 11) / 2**53

    def random(self) -> random.Random:
        """Return a new generator with this seed."""
        return random.Random(self.value)
