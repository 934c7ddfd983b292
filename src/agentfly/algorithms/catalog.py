"""The algorithms, each with what it takes and by which defaults it learns."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from pydantic import Field

from agentfly.algorithms import advantages, losses
from agentfly.algorithms.aggregate import constant_length
from agentfly.algorithms.algorithm import (
    AggregatedOptions,
    Aggregation,
    Algorithm,
    AlgorithmOptions,
    ClippedOptions,
    Critic,
)
from agentfly.algorithms.credit import Overlong
from agentfly.algorithms.function_types import AdvantageFunction, Aggregate, LossFunction
from agentfly.algorithms.group import by_group
from agentfly.algorithms.kl import Kl
from agentfly.algorithms.losses.clipped import Clip


class Ppo(ClippedOptions):
    """PPO: a critic predicts the reward at each token (arXiv:1707.06347)."""

    name: ClassVar[str] = "ppo"
    needs_group: ClassVar[bool] = False
    discount: float = Field(default=1.0, gt=0, le=1)
    """γ: what the next token's reward is worth now."""
    trace: float = Field(default=1.0, ge=0, le=1)
    """λ: 1 trusts the rewards, 0 trusts the critic."""
    normalize: bool = True
    """Standardize advantages over the step's tokens."""
    critic: Critic = Critic()
    """Options of the critic."""

    def advantage(self) -> AdvantageFunction:
        """Return generalized advantage estimation."""
        return partial(
            advantages.gae, discount=self.discount, trace=self.trace, normalize=self.normalize
        )

    def algorithm(self) -> Algorithm:
        """Join functions and critic."""
        return replace(super().algorithm(), critic=self.critic)


class ReinforcePlusPlus(ClippedOptions):
    """REINFORCE++: one normalization for the whole step, no groups (arXiv:2501.03262)."""

    name: ClassVar[str] = "reinforce++"
    needs_group: ClassVar[bool] = False
    kl: Kl = Kl(coefficient=1e-3, estimator="k1", place="reward")
    """KL penalty toward the reference."""
    discount: float = Field(default=1.0, gt=0, le=1)
    """γ: what the next token's reward is worth now."""

    def advantage(self) -> AdvantageFunction:
        """Return the normalized returns."""
        return partial(advantages.reinforce_plus_plus, discount=self.discount)


class ReinforcePlusPlusBaseline(ClippedOptions):
    """REINFORCE++ with the group's mean as a baseline (arXiv:2501.03262)."""

    name: ClassVar[str] = "reinforce++-baseline"
    kl: Kl = Kl(coefficient=1e-3, estimator="k2", place="loss")
    """KL penalty toward the reference."""

    def advantage(self) -> AdvantageFunction:
        """Return the centered rewards, normalized over the step."""
        return partial(advantages.reinforce_plus_plus_baseline, over=self.denominator)


class Grpo(ClippedOptions):
    """GRPO: a chain against its group's mean and spread (arXiv:2402.03300)."""

    name: ClassVar[str] = "grpo"


class Rloo(ClippedOptions):
    """RLOO: a chain against the mean of the others (arXiv:2402.14740)."""

    name: ClassVar[str] = "rloo"

    def advantage(self) -> AdvantageFunction:
        """Return the reward less the others' mean."""
        return by_group(advantages.rloo)


class DrGrpo(AlgorithmOptions):
    """Dr. GRPO: favors neither a length nor easy or hard tasks (arXiv:2503.20783)."""

    name: ClassVar[str] = "dr-grpo"
    clip: Clip = Clip()
    """Range within which one step may change the probability of a token."""
    length: int = Field(default=512, ge=1)
    """The constant that each chain's sum is divided by: about the longest that a chain gets."""

    def advantage(self) -> AdvantageFunction:
        """Return the reward less the group's mean."""
        return by_group(partial(advantages.grpo, scale_by_std=False))

    def loss(self) -> LossFunction:
        """Return PPO's loss."""
        return partial(losses.clipped, clip=self.clip)

    def aggregate(self) -> Aggregate:
        """Return the division by a constant."""
        return partial(constant_length, length=self.length)


class Dapo(ClippedOptions):
    """DAPO: GRPO with room upwards and no wasted groups (arXiv:2503.14476)."""

    name: ClassVar[str] = "dapo"
    clip: Clip = Clip(low=0.2, high=0.28)
    """Range within which one step may change the probability of a token."""
    dynamic_sampling: bool = True
    """Replace groups without spread by others."""
    overlong: Overlong | None = None
    """Penalty on the reward of long chains; off by default."""

    def algorithm(self) -> Algorithm:
        """Join functions and what the loop has to do."""
        joined = super().algorithm()
        return replace(joined, dynamic_sampling=self.dynamic_sampling, overlong=self.overlong)


class Gspo(ClippedOptions):
    """GSPO: one ratio for a whole sequence (arXiv:2507.18071)."""

    name: ClassVar[str] = "gspo"
    clip: Clip = losses.NARROW
    """Range within which one step may change the mean log-probability of a sequence."""
    aggregation: Aggregation = "sequence_mean_of_means"
    """Whether all tokens weigh the same, or all chains, by the sum or the mean of their tokens."""

    def loss(self) -> LossFunction:
        """Return the loss by sequences."""
        return partial(losses.gspo, clip=self.clip)


class Cispo(AggregatedOptions):
    """CISPO: bounds a token's weight, and never drops its gradient (arXiv:2506.13585)."""

    name: ClassVar[str] = "cispo"
    max_ratio: float = Field(default=5.0, ge=1)
    """The largest weight of a token."""

    def loss(self) -> LossFunction:
        """Return the weighted policy gradient."""
        return partial(losses.cispo, max_ratio=self.max_ratio)


class Reinforce(AggregatedOptions):
    """REINFORCE: the plain policy gradient (Williams 1992)."""

    name: ClassVar[str] = "reinforce"
    needs_group: ClassVar[bool] = False
    baseline: bool = True
    """Take off the mean reward of the step."""

    def advantage(self) -> AdvantageFunction:
        """Return the reward, less the baseline."""
        return partial(advantages.reinforce, baseline=self.baseline)


class Gigpo(ClippedOptions):
    """GiGPO: compares turns taken from equal states as well (arXiv:2505.10978)."""

    name: ClassVar[str] = "gigpo"
    discount: float = Field(default=0.95, gt=0, le=1)
    """γ: what the next turn's reward is worth now."""
    step_weight: float = Field(default=1.0, ge=0)
    """ω: how much the comparison of turns counts compared with that of chains."""
    scale_by_std: bool = True
    """Divide by the standard deviation at both levels."""
    dynamic_sampling: bool = False
    """Replace groups without spread by others."""

    def algorithm(self) -> Algorithm:
        """Join functions and what the loop has to do."""
        return replace(super().algorithm(), dynamic_sampling=self.dynamic_sampling)

    def advantage(self) -> AdvantageFunction:
        """Return the sum of both comparisons."""
        return partial(
            advantages.gigpo,
            discount=self.discount,
            step_weight=self.step_weight,
            scale_by_std=self.scale_by_std,
        )


class PerTurn(ClippedOptions):
    """Credit turn by turn: each turn's return against the group's turns (arXiv:2511.14846)."""

    name: ClassVar[str] = "per-turn"
    discount: float = Field(default=0.95, gt=0, le=1)
    """γ: what the next turn's reward is worth now."""

    def advantage(self) -> AdvantageFunction:
        """Return the turns' returns, compared."""
        return partial(advantages.per_turn, discount=self.discount)


_ALL: tuple[type[AlgorithmOptions], ...] = (
    Ppo,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    Grpo,
    Rloo,
    DrGrpo,
    Dapo,
    Gspo,
    Cispo,
    Reinforce,
    Gigpo,
    PerTurn,
)
ALGORITHMS: Mapping[str, type[AlgorithmOptions]] = {options.name: options for options in _ALL}
"""Every known name, and what the algorithm of that name takes."""
