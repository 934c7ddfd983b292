"""GiGPO: groups within the group (arXiv:2505.10978).

In addition to whole chains, it compares the turns that were taken from the same state: what
followed this action, against what followed the others. Where states are unknown it is GRPO.
"""

from functools import partial

import torch
from torch import Tensor

from agentfly.algorithms.advantages.grpo import grpo
from agentfly.algorithms.credit import chain_rewards, discounted_sum, turn_rewards
from agentfly.algorithms.function_types import AdvantageInput, AdvantageOutput
from agentfly.algorithms.group import has_sibling, within


def gigpo(
    x: AdvantageInput,
    *,
    discount: float = 0.95,
    step_weight: float = 1.0,
    scale_by_std: bool = True,
) -> AdvantageOutput:
    """Add the advantage of a turn's return among equal states to that of the whole chain."""
    compare = partial(grpo, scale_by_std=scale_by_std)
    episode_C, used_C = within(x.group_C, chain_rewards(x), compare)
    step_U, compared_U = within(_same_state(x), _returns(x, discount), compare)
    used_C[x.chain_U[compared_U]] = True
    used_C &= has_sibling(x.group_C)
    advantages_N = episode_C[x.chain_N] + step_weight * step_U[x.turn_N]
    return AdvantageOutput(advantages_N=advantages_N.where(used_C[x.chain_N], 0.0), used_C=used_C)


def _returns(x: AdvantageInput, discount: float) -> Tensor:
    return discounted_sum(turn_rewards(x), x.chain_U, discount)


def _same_state(x: AdvantageInput) -> Tensor:
    """Number the turns, so that equal numbers mean an equal state within one group."""
    alone_U = -1 - torch.arange(len(x.state_U), device=x.state_U.device)
    state_U = x.state_U.where(x.state_U >= 0, alone_U)
    pairs = torch.stack([x.group_C[x.chain_U], state_U])
    number_U: Tensor = torch.unique(pairs, dim=1, return_inverse=True)[1]
    return number_U
