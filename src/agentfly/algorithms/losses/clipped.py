"""PPO's loss (arXiv:1707.06347), which GRPO, RLOO, DAPO and most others take as it is."""

from agentfly.algorithms.clip import Clip, clipped_surrogate
from agentfly.algorithms.function_types import LossInput, LossOutput
from agentfly.algorithms.ratio import log_ratio

USUAL = Clip()
"""The paper's range: a fifth to both sides."""


def clipped(x: LossInput, *, clip: Clip = USUAL) -> LossOutput:
    """Clip the ratio of each token."""
    ratio_N = log_ratio(x.logprobs_N, x.old_logprobs_N).exp()
    return clipped_surrogate(ratio_N, x.advantages_N, clip)
