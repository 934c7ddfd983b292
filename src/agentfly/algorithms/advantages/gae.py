"""PPO's generalized advantage estimation (arXiv:1506.02438, arXiv:1707.06347).

A chain's trained tokens, in the order in which they were sampled, are the sequence: what tools and
templates put between two of them takes no time.
"""

import torch

from agentfly.algorithms.credit import discounted_sum, next_in_segment, token_rewards
from agentfly.algorithms.function_types import AdvantageInput, AdvantageOutput
from agentfly.algorithms.group import has_spread, standardize


def gae(
    x: AdvantageInput, *, discount: float = 1.0, trace: float = 1.0, normalize: bool = True
) -> AdvantageOutput:
    """Sum the surprises that follow each token; `discount` is γ, and `trace` is λ.

    The advantages are then standardized over all tokens of the step; the returns, which the critic
    is to learn, are not. Where all are the same, standardizing leaves no credit.
    """
    assert x.values_N is not None, "generalized advantage estimation needs a critic's values"
    next_values_N = next_in_segment(x.values_N, x.chain_N)
    surprise_N = token_rewards(x) + discount * next_values_N - x.values_N
    advantages_N = discounted_sum(surprise_N, x.chain_N, discount * trace)
    credited = has_spread(advantages_N) or not normalize
    return AdvantageOutput(
        advantages_N=standardize(advantages_N) if normalize else advantages_N,
        used_C=torch.full_like(x.group_C, credited, dtype=torch.bool),
        returns_N=advantages_N + x.values_N,
    )
