"""Does it learn? A chain takes two turns of one token each, and is paid if both tokens are right.

The chance of that is 1 in 9 at first. Every algorithm must find it in a few dozen updates, and none
may when its advantages are shuffled.
"""

from dataclasses import dataclass, replace

import pytest
import torch
from tests.some_now import some_now
from torch import Tensor

from agentfly.algorithms import (
    ALGORITHMS,
    AdvantageInput,
    Algorithm,
    LossInput,
    kl_estimate,
    make_algorithm,
    objective,
    value_loss,
)

GROUPS, MEMBERS, TURNS, TOKENS = 4, 8, 2, 3
CHAINS = GROUPS * MEMBERS
RIGHT = torch.tensor([2, 0])
"""The token that is right in each turn."""
CHANCE = 1 / TOKENS**TURNS


@dataclass
class Bandit:
    """A policy and a critic that are nothing but tables."""

    logits: Tensor
    values: Tensor

    def solved(self) -> float:
        """The chance that a chain is paid."""
        right = self.logits.softmax(-1)[torch.arange(TURNS), RIGHT]
        return float(right.prod().detach())


def train(algorithm: Algorithm, *, seed: int, shuffled: bool = False, lr: float = 0.1) -> float:
    generator = torch.Generator().manual_seed(seed)
    bandit = Bandit(
        torch.zeros(TURNS, TOKENS, requires_grad=True), torch.zeros(TURNS, requires_grad=True)
    )
    optimizer = torch.optim.Adam([bandit.logits, bandit.values], lr=lr)
    for _ in range(50):
        loss = step_loss(algorithm, bandit, generator, shuffled=shuffled)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return bandit.solved()


def step_loss(
    algorithm: Algorithm, bandit: Bandit, generator: torch.Generator, *, shuffled: bool
) -> Tensor:
    logprobs = bandit.logits.log_softmax(-1)
    tokens_CU = torch.multinomial(
        logprobs.detach().exp(), CHAINS, replacement=True, generator=generator
    ).T
    turn_N = torch.arange(TURNS).repeat(CHAINS)
    logprobs_N = logprobs[turn_N, tokens_CU.flatten()]
    reference_N = torch.full_like(logprobs_N, TOKENS).log().neg()
    values_N = bandit.values[turn_N]
    given = advantage_input(algorithm, tokens_CU, logprobs_N.detach(), reference_N)
    credit = algorithm.advantage(replace(given, values_N=values_N.detach()))
    order = torch.randperm(len(logprobs_N), generator=generator) if shuffled else slice(None)
    policy = objective(
        algorithm,
        LossInput(
            logprobs_N=logprobs_N,
            old_logprobs_N=logprobs_N.detach(),
            sampled_logprobs_N=logprobs_N.detach(),
            advantages_N=credit.advantages_N[order],
            sample_N=given.chain_N,
            chain_tokens_N=torch.full_like(logprobs_N, TURNS),
            num_tokens=CHAINS * TURNS,
            num_chains=CHAINS,
            reference_logprobs_N=reference_N,
        ),
    ).loss
    if algorithm.critic is None or credit.returns_N is None:
        return policy
    clip = algorithm.critic.clip_value
    critic = value_loss(
        values_N, values_N.detach(), credit.returns_N, clip=clip, num_tokens=CHAINS * TURNS
    )
    return policy + critic.loss


def advantage_input(
    algorithm: Algorithm, tokens_CU: Tensor, logprobs_N: Tensor, reference_N: Tensor
) -> AdvantageInput:
    kl = algorithm.kl
    penalized = kl is not None and kl.place == "reward"
    after_first_turn = 1 + tokens_CU[:, :1]
    return AdvantageInput(
        rewards_C=(tokens_CU == RIGHT).all(dim=1).float(),
        group_C=torch.arange(GROUPS).repeat_interleave(MEMBERS),
        chain_N=torch.arange(CHAINS).repeat_interleave(TURNS),
        turn_N=torch.arange(CHAINS * TURNS),
        chain_U=torch.arange(CHAINS).repeat_interleave(TURNS),
        rewards_U=torch.zeros(CHAINS * TURNS),
        state_U=torch.cat([torch.zeros_like(after_first_turn), after_first_turn], 1).flatten(),
        kl_N=kl.coefficient * kl_estimate(logprobs_N, reference_N, kl.estimator)
        if kl is not None and penalized
        else None,
    )


@pytest.mark.parametrize("name", some_now(ALGORITHMS, every=2))
def test_it_learns(name: str) -> None:
    reached = [train(make_algorithm(name), seed=seed) for seed in range(3)]
    assert min(reached) > 0.8, reached


@pytest.mark.parametrize("name", some_now(ALGORITHMS, every=3))
def test_it_learns_nothing_from_shuffled_advantages(name: str) -> None:
    reached = [train(make_algorithm(name), seed=seed, shuffled=True) for seed in range(3)]
    assert sum(reached) / 3 < 0.3, reached


def test_it_learns_nothing_at_a_learning_rate_of_0() -> None:
    assert train(make_algorithm("grpo"), seed=0, lr=0.0) == pytest.approx(CHANCE)
