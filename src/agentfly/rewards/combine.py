"""Weighted sums of several rewards."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentfly.errors import ConfigError, InfrastructureError, RewardError
from agentfly.rewards.function_reward import UserFunction, reward_boundary
from agentfly.runtime.ordered import in_order
from agentfly.types import (
    Context,
    EnvSpec,
    Offload,
    Reward,
    Score,
    ScoreRange,
    Trajectory,
    declared_range,
)


class CombinedReward:
    """Weighted sum of rewards that run concurrently, made by `combine`."""

    def __init__(self, weights: Mapping[Reward, float], *, name: str) -> None:
        _check(weights)
        self.name = name
        self.weights = dict(weights)

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that its parts need, each once."""
        return tuple(dict.fromkeys(spec for part in self.weights for spec in part.environments))

    @property
    def range(self) -> ScoreRange:
        """Least and greatest sum, from the ranges of the parts."""
        total = ScoreRange(0.0, 0.0)
        for part, weight in self.weights.items():
            ends = [weight * end if weight else 0.0 for end in declared_range(part)]
            total = total.plus(ScoreRange(min(ends), max(ends)))
        return total

    def offloaded(self, offload: Offload) -> "CombinedReward":
        """Return the same sum, with the calls of heavy parts on a cluster."""
        parts = {
            part.offloaded(offload) if isinstance(part, UserFunction | CombinedReward) else part: w
            for part, w in self.weights.items()
        }
        return CombinedReward(parts, name=self.name)

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        """Score a chain by all parts; the first failure cancels the others."""
        scores = await in_order(
            [self._score_part(part, trajectory, context) for part in self.weights]
        )
        return _weighted_sum(self.weights, scores)

    async def _score_part(self, part: Reward, trajectory: Trajectory, context: Context) -> Score:
        own = replace(context, seed=context.seed.child(part.name))
        where = f"part {part.name!r} of reward {self.name!r}"
        try:
            with reward_boundary(where):
                score = await part.score(trajectory, own)
                score.require_turns(len(trajectory.turns))
                return score
        except RewardError as error:
            raise RewardError(f"{where} failed: {error}") from error
        except InfrastructureError as error:
            error.add_note(f"in {where}")
            raise


def combine(weights: Mapping[Reward, float], *, name: str = "combined") -> CombinedReward:
    """Add up several rewards, each times its weight.

    The parts of the score are the rewards' own values, before weighting, under the rewards' names;
    a part's own parts follow as "name/part". Per-turn values add up with the same weights; a reward
    without them adds to the value alone. If one part fails, the whole is unscored.

    >>> from agentfly.rewards import exact_match, format_reward
    >>> scored_by = combine({exact_match(): 1.0, format_reward(tags=["answer"]): 0.2})
    >>> [part.name for part in scored_by.weights]
    ['exact_match', 'format']
    """
    return CombinedReward(weights, name=name)


def _weighted_sum(weights: Mapping[Reward, float], scores: Iterable[Score]) -> Score:
    scored = list(zip(weights.items(), scores, strict=True))
    parts: dict[str, float] = {}
    for (part, _), score in scored:
        parts[part.name] = score.value
        parts |= {f"{part.name}/{name}": value for name, value in score.parts.items()}
    rows = [[weight * x for x in s.per_turn] for (_, weight), s in scored if s.per_turn is not None]
    return Score(
        value=math.fsum(weight * score.value for (_, weight), score in scored),
        parts=parts,
        per_turn=tuple(map(math.fsum, zip(*rows, strict=True))) if rows else None,
    )


def _check(weights: Mapping[Reward, float]) -> None:
    if not weights or not isinstance(weights, Mapping):
        raise ConfigError(
            f"combine takes a dict such as {{exact_match(): 1.0}}, of at least one reward, "
            f"got {weights!r}"
        )
    for part, weight in weights.items():
        if not callable(getattr(part, "score", None)):
            raise ConfigError(f"combine takes rewards that score one chain, got {part!r}")
        if not math.isfinite(weight):
            raise ConfigError(f"the weight of {part.name!r} must be finite, got {weight!r}")
    twice = [name for name, count in Counter(part.name for part in weights).items() if count > 1]
    if twice:
        raise ConfigError(
            f"parts of a reward need different names, got twice: {', '.join(twice)}. "
            "Rename one, for example with @reward(name=...)"
        )
