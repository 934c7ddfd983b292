"""What a chain was worth."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A finite reward and what it was made of. A chain without one is unscored, which is not 0."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    per_turn: tuple[float, ...] | None = None
    """One reward per turn, for turn-level credit."""

    def __post_init__(self) -> None:
        named = {"value": self.value, **self.parts}
        named |= {f"per_turn[{i}]": value for i, value in enumerate(self.per_turn or ())}
        for name, value in named.items():
            if not math.isfinite(value):
                raise ValueError(f"a score must be finite: got {value} for {name}")


def require_finite_reward(reward: Any, where: str) -> None:
    """Refuse the reward of a step that is neither None nor a finite number, numpy's included."""
    if reward is None:
        return
    if not hasattr(reward, "__float__") or not math.isfinite(reward):
        raise ValueError(f"the reward of {where} must be a finite number or None, got {reward!r}")
