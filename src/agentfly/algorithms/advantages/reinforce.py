"""REINFORCE (Williams 1992), with the mean reward of the step as an optional baseline."""

import torch

from agentfly.algorithms.credit import chain_rewards
from agentfly.algorithms.function_types import AdvantageInput, AdvantageOutput
from agentfly.algorithms.group import has_spread


def reinforce(x: AdvantageInput, *, baseline: bool = True) -> AdvantageOutput:
    """Credit each token with its chain's reward, less the mean over all chains."""
    rewards_C = chain_rewards(x)
    advantages_C = rewards_C - rewards_C.mean() if baseline else rewards_C
    credited = has_spread(rewards_C) if baseline else bool(rewards_C.any())
    used_C = torch.full_like(x.group_C, credited, dtype=torch.bool)
    return AdvantageOutput(advantages_N=advantages_C[x.chain_N], used_C=used_C)
