"""When a reward was earned: for a chain as a whole, turn by turn, or token by token.

The same rewards in three views; each view sums to the same total for a chain:

    chain   1.0
    turns   0.2              0.8     a turn's own reward; what is left over at the last turn
    tokens  0  0  0.2   0  0  0.8    at the last trained token of the turn

The divergence from the reference, where it is part of the reward, comes off at its own token. A
chain near the length limit may lose some of its reward before (DAPO, arXiv:2503.14476).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from agentfly.algorithms.function_types import AdvantageInput
from agentfly.config import Settings


def chain_rewards(x: AdvantageInput) -> Tensor:
    """Return what each chain was worth, less its divergence from the reference."""
    if x.kl_N is None:
        return x.rewards_C
    return x.rewards_C.index_add(0, x.chain_N, x.kl_N, alpha=-1)


def turn_rewards(x: AdvantageInput) -> Tensor:
    """Return what each turn was worth, less its divergence from the reference."""
    rewards_U = _earned_in_turns(x)
    if x.kl_N is None:
        return rewards_U
    return rewards_U.index_add(0, x.turn_N, x.kl_N, alpha=-1)


def token_rewards(x: AdvantageInput) -> Tensor:
    """Return what each token was worth, less its divergence from the reference.

    The reward of a turn without trained tokens goes to the last trained token before it.
    """
    at_U = _last_up_to(torch.arange(len(x.chain_U), device=x.turn_N.device), x.turn_N)
    no_chain = x.chain_N.new_tensor([-1])  # what index -1 finds, where no token came before
    reached_U = torch.cat([x.chain_N, no_chain])[at_U] == x.chain_U
    rewards_N = x.rewards_C.new_zeros(len(x.chain_N))
    rewards_N = rewards_N.index_add(0, at_U[reached_U], _earned_in_turns(x)[reached_U])
    return rewards_N if x.kl_N is None else rewards_N - x.kl_N


def discounted_sum(values: Tensor, segment: Tensor, discount: float) -> Tensor:
    """Sum what follows, each step weighing `discount` times the one before, within each segment.

    >>> discounted_sum(torch.tensor([1.0, 1.0, 1.0, 8.0]), torch.tensor([0, 0, 0, 1]), 0.5)
    tensor([1.7500, 1.5000, 1.0000, 8.0000])
    """
    sums, segments = values.tolist(), segment.tolist()
    for i in reversed(range(len(sums) - 1)):
        if segments[i] == segments[i + 1]:
            sums[i] += discount * sums[i + 1]
    return values.new_tensor(sums)


def next_in_segment(values: Tensor, segment: Tensor) -> Tensor:
    """Return the value that follows in the same segment, 0 after its last.

    >>> next_in_segment(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 1]))
    tensor([2., 0., 0.])
    """
    following = torch.zeros_like(values)
    following[:-1] = values[1:].where(segment[1:] == segment[:-1], 0.0)
    return following


def _earned_in_turns(x: AdvantageInput) -> Tensor:
    left_C = x.rewards_C.index_add(0, x.chain_U, x.rewards_U, alpha=-1)
    last_C = _last_up_to(torch.arange(len(left_C), device=x.chain_U.device), x.chain_U)
    return x.rewards_U.index_add(0, last_C, left_C)


def _last_up_to(keys: Tensor, rising: Tensor) -> Tensor:
    """Return where in `rising` the last number up to each key stands; -1 where there is none."""
    return torch.searchsorted(rising, keys, right=True) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlong:
    """Lengths at which the penalty begins and at which it is full."""

    __pydantic_config__ = Settings.model_config

    max_tokens: int
    """Sampled tokens of a chain at which the punishment is full."""
    soft_tokens: int
    """Over how many tokens before that it grows from 0."""
    penalty: float = 1.0
    """Penalty of a chain of full length."""

    def __post_init__(self) -> None:
        if not 0 < self.soft_tokens <= self.max_tokens:
            raise ValueError(
                "soft_tokens must be above 0 and at most max_tokens: "
                f"got {self.soft_tokens} of {self.max_tokens}"
            )


def overlong_penalty(lengths_C: Tensor, overlong: Overlong) -> Tensor:
    """Return what each chain loses of its reward, by its number of sampled tokens.

    >>> import torch
    >>> overlong = Overlong(max_tokens=100, soft_tokens=20)
    >>> overlong_penalty(torch.tensor([50, 80, 90, 100, 300]), overlong)
    tensor([0.0000, 0.0000, 0.5000, 1.0000, 1.0000])
    """
    free = overlong.max_tokens - overlong.soft_tokens
    return ((lengths_C - free) / overlong.soft_tokens).clamp(0, 1) * overlong.penalty
