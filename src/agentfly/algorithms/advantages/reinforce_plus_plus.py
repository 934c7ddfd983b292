"""REINFORCE++ (arXiv:2501.03262): no critic, and one normalization for the whole step.

Mean and spread are taken over the advantages of all tokens, so a long chain has more say in them
than a short one.
"""

from typing import Literal

import torch

from agentfly.algorithms.credit import chain_rewards, discounted_sum, token_rewards
from agentfly.algorithms.function_types import AdvantageInput, AdvantageOutput
from agentfly.algorithms.group import has_spread, standardize, within


def reinforce_plus_plus(x: AdvantageInput, *, discount: float = 1.0) -> AdvantageOutput:
    """Credit each token with the rewards that follow it, standardized over the step's tokens."""
    returns_N = discounted_sum(token_rewards(x), x.chain_N, discount)
    used_C = torch.full_like(x.group_C, has_spread(returns_N), dtype=torch.bool)
    return AdvantageOutput(advantages_N=standardize(returns_N), used_C=used_C)


def reinforce_plus_plus_baseline(
    x: AdvantageInput, *, over: Literal["scored", "credited"] = "scored"
) -> AdvantageOutput:
    """Take off the group's mean first, then standardize over the tokens of the whole step.

    A group without spread is then as far from 0 as the step's mean is, and gives a gradient too;
    `over="credited"` leaves such groups out of mean, spread and gradient.
    """
    centered_C, used_C = within(x.group_C, chain_rewards(x), lambda r_G: r_G - r_G.mean())
    if over == "scored":
        used_C = torch.full_like(used_C, bool(used_C.any()))
    used_N = used_C[x.chain_N]
    advantages_N = centered_C[x.chain_N]
    advantages_N[used_N] = standardize(advantages_N[used_N])
    return AdvantageOutput(advantages_N=advantages_N, used_C=used_C)
