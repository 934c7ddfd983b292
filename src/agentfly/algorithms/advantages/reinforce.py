"""REINFORCE (Williams 1992), with the mean reward of the step as an optional baseline."""

import torch

from agentfly.algorithms.batch import AdvantageInput, AdvantageOutput
from agentfly.algorithms.credit import chain_rewards


def reinforce(x: AdvantageInput, *, baseline: bool = True) -> AdvantageOutput:
    """Credit each token with its chain's reward, less the mean over all chains."""
    rewards_C = chain_rewards(x)
    advantages_C = rewards_C - rewards_C.mean() if baseline else rewards_C
    used_C = torch.ones_like(x.group_C, dtype=torch.bool)
    return AdvantageOutput(advantages_N=advantages_C[x.chain_N], used_C=used_C)
