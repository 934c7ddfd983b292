"""An algorithm is data: an advantage function, a loss function, and what they need."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from agentfly.algorithms.aggregate import token_mean
from agentfly.algorithms.correction import Correction
from agentfly.algorithms.custom_functions import CustomAdvantage, CustomLoss
from agentfly.algorithms.function_types import AdvantageFunction, Aggregate, LossFunction
from agentfly.algorithms.kl import Kl
from agentfly.algorithms.losses.policy_gradient import policy_gradient
from agentfly.algorithms.overlong import Overlong
from agentfly.config import Problem, Settings

Denominator = Literal["scored", "credited"]
"""What the loss of an update is divided by: the tokens or the number of all scored chains that the
update was dealt, as published, or of those alone that have credit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """How a value is learned beside the policy."""

    __pydantic_config__ = Settings.model_config

    clip_value: float | None = 0.2
    """How far a value may move from what it was before the step; None for any distance."""

    def __post_init__(self) -> None:
        if self.clip_value is not None and self.clip_value <= 0:
            raise ValueError(f"clip_value is a distance and must be above 0: got {self.clip_value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """What the learner and the loop have to know; they never ask which algorithm it is.

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
    """What to learn values with; None where no values are needed."""
    kl: Kl | None = None
    """How the policy is held near its reference; None where it is free."""
    entropy_coefficient: float = 0.0
    correction: Correction = field(default_factory=Correction)
    """What is done where sampler and learner disagree."""
    dynamic_sampling: bool = False
    """Replace groups without spread by others, until the step is full."""
    overlong: Overlong | None = None
    """What a long chain loses of its reward before advantages are computed."""

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities under the reference are asked for."""
        return self.kl is not None

    @property
    def penalizes(self) -> bool:
        """Whether the loss has a term that acts on chains without credit: KL or entropy."""
        in_loss = self.kl is not None and self.kl.place == "loss"
        return in_loss or self.entropy_coefficient != 0

    def problems(self, num_chains: int, *, updates: int = 1) -> Iterator[Problem]:
        """Find what keeps it from learning by so many chains of each task.

        Args:
            num_chains: Chains of each task.
            updates: How often a step changes the weights: epochs times minibatches.
        """
        if self.needs_group and num_chains < 2:
            text = (
                f"{self.name} compares the chains of a task: it needs at least 2, got {num_chains}"
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
        for field_name, way_out in self._unknown().items():
            if field_name in self._required:
                text = f"{self.name} asks for {field_name}, which is unknown here: {way_out}"
                yield Problem(key="algorithm.name", text=text)

    @property
    def _required(self) -> set[str]:
        """What functions of a user's own can't do without."""
        own = (
            f for f in (self.advantage, self.loss) if isinstance(f, CustomAdvantage | CustomLoss)
        )
        return {name for function in own for name in function.required}

    def _unknown(self) -> dict[str, str]:
        """Tell which inputs are None with this algorithm, and what would give them."""
        unknown = {}
        if self.critic is None:
            unknown["values_N"] = "make it part of an Algorithm with critic=Critic()"
        if self.kl is None:
            unknown["reference_logprobs_N"] = "set kl.coefficient above 0"
        if self.kl is None or self.kl.place != "reward":
            unknown["kl_N"] = "set kl.coefficient above 0, and kl.place to 'reward'"
        return unknown
