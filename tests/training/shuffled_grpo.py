"""GRPO whose advantages go to the wrong chains: with them nothing can be learned."""

from dataclasses import replace

import torch

from agentfly.algorithms import AdvantageInput, AdvantageOutput, make_algorithm

_honest = make_algorithm("grpo", {})
_generator = torch.Generator().manual_seed(0)


def _shuffled(x: AdvantageInput) -> AdvantageOutput:
    rewards_C = x.rewards_C[torch.randperm(len(x.rewards_C), generator=_generator)]
    return _honest.advantage(replace(x, rewards_C=rewards_C))


algorithm = replace(_honest, name="shuffled-grpo", advantage=_shuffled)
