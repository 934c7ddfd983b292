import torch

from agentfly.algorithms import (
    AdvantageInput,
    Algorithm,
    LossInput,
    advantage,
    loss,
    make_algorithm,
    objective,
)


@advantage
def better_than_median(rewards_G):
    """Called once for each group, with the rewards of its scored chains."""
    return torch.sign(rewards_G - rewards_G.median())


@loss
def likelier(logprobs_N, advantages_N):
    """Called for each microbatch; returns a loss for each trained token."""
    return -advantages_N * logprobs_N


mine = Algorithm(name="mine", advantage=better_than_median, loss=likelier, needs_group=True)
grpo = make_algorithm("grpo", {"clip": {"high": 0.28}, "kl": {"coefficient": 0.01}})

# One group of three chains with two, one and two trained tokens.
step = AdvantageInput(
    rewards_C=torch.tensor([1.0, 0.0, 0.5]),
    group_C=torch.tensor([0, 0, 0]),
    chain_N=torch.tensor([0, 0, 1, 2, 2]),
    turn_N=torch.tensor([0, 1, 2, 3, 3]),
    chain_U=torch.tensor([0, 0, 1, 2]),
    rewards_U=torch.zeros(4),
    state_U=torch.full((4,), -1),
)
print(grpo.advantage(step).advantages_N)  # 1.0, 1.0, -1.0, 0.0, 0.0, nearly
print(mine.advantage(step).advantages_N)  # 1, 1, -1, 0, 0

logprobs = torch.tensor([-1.0, -0.5, -2.0, -0.1, -0.3], requires_grad=True)
microbatch = LossInput(
    logprobs_N=logprobs,
    old_logprobs_N=logprobs.detach(),
    sampled_logprobs_N=logprobs.detach(),
    advantages_N=mine.advantage(step).advantages_N,
    sample_N=step.chain_N,
    chain_tokens_N=torch.tensor([2, 2, 1, 2, 2]),
    num_tokens=5,
    num_chains=3,
)
objective(mine, microbatch).loss.backward()
print(logprobs.grad)  # -0.2, -0.2, 0.2, 0, 0
