"""Types of advantage and loss functions: their inputs and outputs.

Letters, the same in the whole package:
    N   trained tokens: sampled ones that the mask left on, chain after chain
    C   chains that were scored
    G   the scored members of one group
    U   turns of these chains, chain after chain; each has at least one
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageInput:
    """All scored chains of one step."""

    rewards_C: Tensor
    """Reward of each chain as a whole, its turns' rewards included."""
    group_C: Tensor
    """Which group each chain belongs to: 0, 1, 2, …"""
    chain_N: Tensor
    """Which chain each token belongs to. Tokens are in the order of their chains, and of time."""
    turn_N: Tensor
    """Which turn each token belongs to, as an index into the tensors over U: it never falls."""
    chain_U: Tensor
    rewards_U: Tensor
    """Which part of `rewards_C` came with each turn; 0 where there is none. What a chain's turns
    leave over was earned at its end."""
    state_U: Tensor
    """Equal numbers within a group mean equal states before the turn; -1 where it is unknown."""
    kl_N: Tensor | None = None
    """Estimated divergence from the reference, weighted, where it is part of the reward."""
    values_N: Tensor | None = None
    """The critic's, before each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageOutput:
    """The advantage of each token."""

    advantages_N: Tensor
    used_C: Tensor
    """False for chains without credit: their group is too small or has no spread. Their advantages
    count as 0."""
    returns_N: Tensor | None = None
    """Targets of the critic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInput:
    """The tokens of one microbatch, and the denominators of the whole optimizer update."""

    logprobs_N: Tensor
    """Under the weights that are being trained: the only tensor here that carries a gradient,
    besides the entropy."""
    old_logprobs_N: Tensor
    """Under the weights before this step, computed as the learner computes."""
    sampled_logprobs_N: Tensor
    """As the sampler recorded them."""
    advantages_N: Tensor
    sample_N: Tensor
    """Which sequence each token belongs to: 0, 1, 2, … within the microbatch. A sequence is one
    token stream, and is never split between microbatches."""
    chain_tokens_N: Tensor
    """Number of trained tokens of the token's chain, over all of its streams."""
    num_tokens: float
    """Trained tokens of all scored chains that the update was dealt, over all microbatches and
    processes; also of those that give no gradient and are not in any microbatch."""
    num_chains: float
    """These chains."""
    reference_logprobs_N: Tensor | None = None
    entropy_N: Tensor | None = None
    credited_N: Tensor | None = None
    """False for tokens of chains without credit, which only KL and entropy act on; None where all
    have credit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutput:
    """The loss of each token, not yet aggregated, and what was seen on the way."""

    loss_N: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Per token, without gradient; their mean over the step is logged."""


AdvantageFunction = Callable[[AdvantageInput], AdvantageOutput]
LossFunction = Callable[[LossInput], LossOutput]
Aggregate = Callable[[Tensor, LossInput], Tensor]
"""From a loss per token to the microbatch's share of the step's loss, by the denominators."""
