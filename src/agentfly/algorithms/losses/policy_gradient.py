"""The plain policy gradient (Williams 1992): for one update on fresh samples."""

from agentfly.algorithms.function_types import LossInput, LossOutput


def policy_gradient(x: LossInput) -> LossOutput:
    """Weigh each token's log-probability by its advantage."""
    return LossOutput(loss_N=-x.advantages_N * x.logprobs_N)
