"""Scores of chains and the ranges that rewards declare."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentfly.errors import ConfigError


class ScoreRange(NamedTuple):
    """Least and greatest value that a reward can have; infinite where unknown."""

    low: float = -math.inf
    high: float = math.inf

    def __contains__(self, value: object) -> bool:
        """Return whether a value is within the range, except for rounding.

        >>> 0.1 + 0.2 in ScoreRange(0.0, 0.3), 0.4 in ScoreRange(0.0, 0.3)
        (True, False)
        """
        if not isinstance(value, float | int):
            return False
        slack = 1e-6 * max((abs(end) for end in self if math.isfinite(end)), default=0.0)
        return self.low - slack <= value <= self.high + slack

    def plus(self, other: "ScoreRange") -> "ScoreRange":
        """Return the range of a sum of two rewards."""
        return ScoreRange(self.low + other.low, self.high + other.high)

    def around(self, *others: "ScoreRange") -> "ScoreRange":
        """Return the smallest range that holds this one and others."""
        ranges = (self, *others)
        return ScoreRange(min(r.low for r in ranges), max(r.high for r in ranges))


ANY_SCORE = ScoreRange()
"""Range of a reward that declares none."""


def read_range(pair: Any, where: str) -> ScoreRange:
    """Read a pair such as (0, 1), or raise ConfigError; None is an unknown range.

    >>> read_range((0, 1), "reward 'exact'")
    ScoreRange(low=0.0, high=1.0)
    """
    if pair is None:
        return ANY_SCORE
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise ConfigError(
            f"the range of {where} must be two numbers, the lesser first, such as (0, 1): "
            f"got {pair!r}"
        )
    return ScoreRange(low, high)


def declared_range(reward: Any) -> ScoreRange:
    """Return the range in a reward's attribute `range`; unknown if it has none."""
    return read_range(getattr(reward, "range", None), f"reward {getattr(reward, 'name', reward)!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Finite reward with its parts. A chain without a score is unscored, which is not 0."""

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

    def require_turns(self, turns: int) -> None:
        """Refuse per-turn rewards whose number is not that of the chain's turns."""
        if self.per_turn is not None and len(self.per_turn) != turns:
            raise ValueError(
                f"per_turn needs one reward for each turn: got {len(self.per_turn)} rewards for a "
                f"chain of {turns} turns"
            )

    def plus(self, other: "Score") -> "Score":
        """Add two scores of one chain: values, parts, and per-turn rewards, if any."""
        rows = [score.per_turn for score in (self, other) if score.per_turn is not None]
        return Score(
            value=self.value + other.value,
            parts={**self.parts, **other.parts},
            per_turn=tuple(map(math.fsum, zip(*rows, strict=True))) if rows else None,
        )


def read_flag(flag: Any, where: str) -> bool:
    """Return a bool, also for a scalar of numpy or torch; raise TypeError for anything else.

    Other values that count as true, such as 1 or a text, would be summed and written to disk
    unchanged.
    """
    plain = flag.item() if getattr(flag, "shape", None) == () else flag
    if not isinstance(plain, bool):
        raise TypeError(f"{where} must be True or False, got {flag!r:.100}")
    return plain


def require_finite_reward(reward: Any, where: str) -> None:
    """Refuse the reward of a step that is neither None nor a finite number, numpy's included."""
    if reward is None:
        return
    if not hasattr(reward, "__float__") or not math.isfinite(reward):
        raise ValueError(f"the reward of {where} must be a finite number or None, got {reward!r}")
