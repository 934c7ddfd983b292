"""GSPO: the ratio of a whole sequence, by the mean of its log-ratios (arXiv:2507.18071).

This is the paper's token form: each token has the sequence's ratio as its value, and carries the
gradient of its own log-probability. Added up over a sequence that is the sequence's gradient, and
what weighs or leaves out a single token reaches this token alone.
"""

from agentfly.algorithms.function_types import LossInput, LossOutput
from agentfly.algorithms.losses.clipped import Clip, clipped_surrogate
from agentfly.algorithms.ratio import log_ratio, sequence_mean

NARROW = Clip(low=3e-4, high=4e-4)
"""The paper's range: the mean over a sequence moves far less than a single token does."""


def gspo(x: LossInput, *, clip: Clip = NARROW) -> LossOutput:
    """Clip the ratio of each sequence, the same for all of its tokens."""
    log_ratio_N = log_ratio(x.logprobs_N, x.old_logprobs_N)
    mean_N = sequence_mean(log_ratio_N.detach(), x.sample_N)
    ratio_N = (mean_N + (log_ratio_N - log_ratio_N.detach())).exp()
    return clipped_surrogate(ratio_N, x.advantages_N, clip)
