"""Credit turn by turn, without a critic (GTPO, arXiv:2511.14846)."""

import torch

from agentfly.algorithms.credit import discounted_sum, turn_rewards
from agentfly.algorithms.function_types import AdvantageInput, AdvantageOutput
from agentfly.algorithms.group import has_sibling, standardize, within


def per_turn(x: AdvantageInput, *, discount: float = 0.95) -> AdvantageOutput:
    """Credit a turn's tokens with its discounted return, standardized over the group's turns."""
    returns_U = discounted_sum(turn_rewards(x), x.chain_U, discount)
    advantages_U, compared_U = within(x.group_C[x.chain_U], returns_U, standardize)
    used_C = torch.zeros_like(x.group_C, dtype=torch.bool)
    used_C[x.chain_U] = compared_U
    used_C &= has_sibling(x.group_C)
    advantages_N = advantages_U[x.turn_N].where(used_C[x.chain_N], 0.0)
    return AdvantageOutput(advantages_N=advantages_N, used_C=used_C)
