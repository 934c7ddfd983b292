"""CISPO: the clipped ratio is a weight, so no token loses its gradient (arXiv:2506.13585)."""

from agentfly.algorithms.function_types import LossInput, LossOutput
from agentfly.algorithms.ratio import log_ratio


def cispo(x: LossInput, *, max_ratio: float = 5.0) -> LossOutput:
    """Weigh each token's log-probability by its ratio, up to a bound."""
    ratio_N = log_ratio(x.logprobs_N.detach(), x.old_logprobs_N).exp()
    weight_N = ratio_N.clamp(max=max_ratio)
    return LossOutput(
        loss_N=-weight_N * x.advantages_N * x.logprobs_N,
        metrics={"clip_high": ratio_N > max_ratio},
    )
