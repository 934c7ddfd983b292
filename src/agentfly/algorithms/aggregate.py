"""From a loss per token to one number, by denominators that are passed in.

The denominators are sums over all scored chains that an optimizer update was dealt, so that cutting
it into microbatches can't change the gradient: the parts add up. Chains without credit are among
them, unless `algorithm.denominator` is "credited". A chain cut into several sequences counts once.
"""

from collections.abc import Mapping

from torch import Tensor

from agentfly.algorithms.function_types import Aggregate, LossInput


def token_mean(loss_N: Tensor, x: LossInput) -> Tensor:
    """Let every token of the step weigh the same (arXiv:2503.14476)."""
    return loss_N.sum() / x.num_tokens


def sequence_mean_of_sums(loss_N: Tensor, x: LossInput) -> Tensor:
    """Add up each chain's tokens; a long chain weighs more (arXiv:2402.14740)."""
    return loss_N.sum() / x.num_chains


def sequence_mean_of_means(loss_N: Tensor, x: LossInput) -> Tensor:
    """Let every chain weigh the same, however long it is (arXiv:2402.03300)."""
    return (loss_N / x.chain_tokens_N).sum() / x.num_chains


def constant_length(loss_N: Tensor, x: LossInput, *, length: float) -> Tensor:
    """Divide each chain's sum by one constant, which favors no length (arXiv:2503.20783)."""
    return loss_N.sum() / (x.num_chains * length)


AGGREGATES: Mapping[str, Aggregate] = {
    "token_mean": token_mean,
    "sequence_mean_of_sums": sequence_mean_of_sums,
    "sequence_mean_of_means": sequence_mean_of_means,
}
