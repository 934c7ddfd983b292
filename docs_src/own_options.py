from functools import partial

import torch

from agentfly.algorithms import (
    AdvantageInput,
    AdvantageOutput,
    AggregatedOptions,
    LossInput,
    LossOutput,
)


def cheaper(x: AdvantageInput, *, token_cost: float) -> AdvantageOutput:
    """Subtract the length from the reward, then the mean of the group."""
    tokens_C = torch.bincount(x.chain_N, minlength=len(x.rewards_C))  # trained tokens alone
    scores_C = x.rewards_C - token_cost * tokens_C
    members = torch.bincount(x.group_C)
    means = torch.bincount(x.group_C, weights=scores_C) / members
    advantages_C = scores_C - means[x.group_C]
    return AdvantageOutput(
        advantages_N=advantages_C[x.chain_N].float(), used_C=members[x.group_C] > 1
    )


def bounded(x: LossInput, *, bound: float) -> LossOutput:
    """Let no ratio count that is further from 1 than the bound."""
    ratio_N = (x.logprobs_N - x.old_logprobs_N).exp()
    loss_N = -x.advantages_N * ratio_N.clamp(1 - bound, 1 + bound)
    return LossOutput(loss_N=loss_N, metrics={"beyond": (ratio_N.detach() - 1).abs() > bound})


class CheaperChains(AggregatedOptions):
    """An own advantage and an own loss, with an option of each."""

    needs_group = True  # compares the chains of a task; False lets num_chains be 1

    token_cost: float = 0.001
    bound: float = 0.2

    def advantage(self):
        return partial(cheaper, token_cost=self.token_cost)

    def loss(self):
        return partial(bounded, bound=self.bound)


# One group of two chains, with three trained tokens and one.
step = AdvantageInput(
    rewards_C=torch.tensor([1.0, 1.0]),
    group_C=torch.tensor([0, 0]),
    chain_N=torch.tensor([0, 0, 0, 1]),
    turn_N=torch.tensor([0, 0, 1, 2]),
    chain_U=torch.tensor([0, 0, 1]),
    rewards_U=torch.zeros(3),
    state_U=torch.full((3,), -1),
)
algorithm = CheaperChains(token_cost=0.1).algorithm()
print(algorithm.advantage(step).advantages_N)  # -0.1, -0.1, -0.1, 0.1
