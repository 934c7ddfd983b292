"""What several algorithms can be told, under the same names in all of them.

A key that is left out keeps the algorithm's own default, inside a table too:

    [algorithm]
    name = "reinforce++"
    kl.coefficient = 0.01        # still by k1, and in the reward
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from agentfly.algorithms.advantages import grpo
from agentfly.algorithms.aggregate import AGGREGATES
from agentfly.algorithms.algorithm import Algorithm, Denominator
from agentfly.algorithms.clip import Clip
from agentfly.algorithms.correction import Correction
from agentfly.algorithms.function_types import AdvantageFunction, Aggregate, LossFunction
from agentfly.algorithms.group import by_group
from agentfly.algorithms.kl import Kl
from agentfly.algorithms.losses import clipped, policy_gradient
from agentfly.config import Settings

Aggregation = Literal["token_mean", "sequence_mean_of_sums", "sequence_mean_of_means"]


class AlgorithmOptions(Settings):
    """What every algorithm takes. One that says nothing else compares chains as GRPO does."""

    name: ClassVar[str] = "own"
    needs_group: ClassVar[bool] = True

    kl: Kl = Kl()
    """How strongly the policy is held near its reference."""
    entropy_coefficient: float = Field(default=0.0, ge=0)
    """How much a wide choice of next tokens is worth."""
    correction: Correction = Correction()
    """What is done where sampler and learner disagree."""
    denominator: Denominator = "scored"
    """Divide an update's loss by all scored chains that it was dealt, or by those alone that have
    credit: then KL and entropy act on these alone."""

    def advantage(self) -> AdvantageFunction:
        """Return the advantage function with its options filled in."""
        return by_group(grpo)

    def loss(self) -> LossFunction:
        """Return the loss function with its options filled in."""
        return policy_gradient

    @abstractmethod
    def aggregate(self) -> Aggregate:
        """Return how tokens are weighed."""

    def algorithm(self) -> Algorithm:
        """Join them."""
        return Algorithm(
            name=self.name,
            advantage=self.advantage(),
            loss=self.loss(),
            aggregate=self.aggregate(),
            denominator=self.denominator,
            needs_group=self.needs_group,
            kl=self.kl if self.kl.coefficient else None,
            entropy_coefficient=self.entropy_coefficient,
            correction=self.correction,
        )

    @model_validator(mode="before")
    @classmethod
    def _keep_defaults(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {key: cls._over_default(key, value) for key, value in given.items()}

    @classmethod
    def _over_default(cls, key: str, value: Any) -> Any:
        default = cls.model_fields[key].default if key in cls.model_fields else None
        if isinstance(value, Mapping) and is_dataclass(default) and not isinstance(default, type):
            return {**asdict(default), **value}
        return value


class AggregatedOptions(AlgorithmOptions):
    """What an algorithm takes whose tokens may be weighed in several ways."""

    aggregation: Aggregation = "token_mean"
    """Whether all tokens weigh the same, or all chains, by the sum or the mean of their tokens."""

    def aggregate(self) -> Aggregate:
        """Return how tokens are weighed."""
        return AGGREGATES[self.aggregation]


class ClippedOptions(AggregatedOptions):
    """What an algorithm takes that clips the ratio of new to old probabilities."""

    clip: Clip = Clip()
    """How far one step may move the probability of a token."""

    def loss(self) -> LossFunction:
        """Return the loss function with its options filled in."""
        return partial(clipped, clip=self.clip)
