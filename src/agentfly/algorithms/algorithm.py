"""An algorithm as data: an advantage function, a loss function, what they need, and their options.

A key of the options that is left out keeps the algorithm's own default, inside a table too:

    [algorithm]
    name = "reinforce++"
    kl.coefficient = 0.01        # still by k1, and in the reward
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from agentfly.algorithms.advantages import grpo
from agentfly.algorithms.aggregate import AGGREGATES, token_mean
from agentfly.algorithms.correction import Correction
from agentfly.algorithms.credit import Overlong
from agentfly.algorithms.custom_functions import CustomAdvantage, CustomLoss
from agentfly.algorithms.function_types import AdvantageFunction, Aggregate, LossFunction
from agentfly.algorithms.group import by_group
from agentfly.algorithms.kl import Kl
from agentfly.algorithms.losses import clipped, policy_gradient
from agentfly.algorithms.losses.clipped import Clip
from agentfly.config import Problem, Settings

Denominator = Literal["scored", "credited"]
"""The denominator of an update's loss: the tokens or the number of all scored chains that the
update was given, as published, or of those alone that have credit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """Options of the critic, which learns values next to the policy."""

    __pydantic_config__ = Settings.model_config

    clip_value: float | None = 0.2
    """Largest change of a value in one step; None for no limit."""

    def __post_init__(self) -> None:
        if self.clip_value is not None and self.clip_value <= 0:
            raise ValueError(f"clip_value is a distance and must be above 0: got {self.clip_value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """All that the learner and the loop need of an algorithm, whichever it is.

    >>> from agentfly.algorithms import make_algorithm
    >>> algorithm = make_algorithm("grpo", {"kl": {"coefficient": 0.01}})
    >>> algorithm.needs_group, algorithm.needs_reference, algorithm.critic
    (True, True, None)
    """

    name: str
    advantage: AdvantageFunction
    loss: LossFunction
    aggregate: Aggregate = token_mean
    denominator: Denominator = "scored"
    """Which chains the aggregation counts; with `credited`, KL and entropy act on these alone."""
    needs_group: bool = False
    """Its baseline is the group's: a task needs two chains or more."""
    critic: Critic | None = None
    """Options of the critic; None where no values are needed."""
    kl: Kl | None = None
    """KL penalty toward the reference; None for no penalty."""
    entropy_coefficient: float = 0.0
    correction: Correction = field(default_factory=Correction)
    """Correction where the log-probabilities of sampler and learner differ."""
    dynamic_sampling: bool = False
    """Replace groups without spread by others, until the step is full."""
    overlong: Overlong | None = None
    """Penalty on the reward of long chains, before advantages are computed."""

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities under the reference are asked for."""
        return self.kl is not None

    @property
    def penalizes(self) -> bool:
        """Whether the loss has a term that acts on chains without credit: KL or entropy."""
        in_loss = self.kl is not None and self.kl.place == "loss"
        return in_loss or self.entropy_coefficient != 0

    def problems(
        self, num_chains: int, *, updates: int = 1, max_staleness: int = 0
    ) -> Iterator[Problem]:
        """Find what keeps it from learning by so many chains of each task.

        Args:
            num_chains: Chains of each task.
            updates: How often a step changes the weights: epochs times minibatches.
            max_staleness: How many updates the weights that sampled a token may be behind.
        """
        if self.needs_group and num_chains < 2:
            text = (
                f"{self.name} compares the chains of a task: it needs at least 2, got {num_chains}"
                ". Raise it, or choose an algorithm without groups, such as reinforce"
            )
            yield Problem(key="rollout.num_chains", text=text)
        if self.loss is policy_gradient and updates > 1:
            text = (
                f"{self.name} has the plain policy gradient, which holds for one update of each "
                f"step: after the first, the chains are no longer the policy's own, and nothing in "
                f"the loss corrects for it. Got {updates} updates (epochs times minibatches): set "
                "both to 1, or choose an algorithm with a ratio, such as grpo or cispo"
            )
            yield Problem(key="train.minibatches", text=text)
        if self.loss is policy_gradient and max_staleness > 0:
            text = (
                f"{self.name} has the plain policy gradient, which holds for chains of the current "
                f"weights: nothing in the loss bounds what older ones can do. Got {max_staleness}: "
                "set it to 0, or choose an algorithm with a clipped ratio, such as grpo or cispo"
            )
            yield Problem(key="rollout.max_staleness", text=text)
        for field_name, way_out in self._unknown().items():
            if field_name in self._required:
                text = f"{self.name} asks for {field_name}, which is unknown here: {way_out}"
                yield Problem(key="algorithm.name", text=text)

    @property
    def _required(self) -> set[str]:
        """Fields that custom functions need."""
        own = (
            f for f in (self.advantage, self.loss) if isinstance(f, CustomAdvantage | CustomLoss)
        )
        return {name for function in own for name in function.required}

    def _unknown(self) -> dict[str, str]:
        """Return the inputs that are None with this algorithm, and what would provide them."""
        unknown = {}
        if self.critic is None:
            unknown["values_N"] = "make it part of an Algorithm with critic=Critic()"
        if self.kl is None:
            unknown["reference_logprobs_N"] = "set kl.coefficient above 0"
        if self.kl is None or self.kl.place != "reward":
            unknown["kl_N"] = "set kl.coefficient above 0, and kl.place to 'reward'"
        return unknown


Aggregation = Literal["token_mean", "sequence_mean_of_sums", "sequence_mean_of_means"]


class AlgorithmOptions(Settings):
    """Options of every algorithm. One without functions of its own compares chains as GRPO does."""

    name: ClassVar[str] = "own"
    needs_group: ClassVar[bool] = True

    kl: Kl = Kl()
    """KL penalty toward the reference."""
    entropy_coefficient: float = Field(default=0.0, ge=0)
    """Coefficient of the entropy bonus."""
    correction: Correction = Correction()
    """Correction where the log-probabilities of sampler and learner differ."""
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
    """Options of an algorithm whose tokens may be weighed in several ways."""

    aggregation: Aggregation = "token_mean"
    """Whether all tokens weigh the same, or all chains, by the sum or the mean of their tokens."""

    def aggregate(self) -> Aggregate:
        """Return how tokens are weighed."""
        return AGGREGATES[self.aggregation]


class ClippedOptions(AggregatedOptions):
    """Options of an algorithm that clips the ratio of new to old probabilities."""

    clip: Clip = Clip()
    """Range within which one step may change the probability of a token."""

    def loss(self) -> LossFunction:
        """Return the loss function with its options filled in."""
        return partial(clipped, clip=self.clip)
