"""PPO's loss (arXiv:1707.06347), which GRPO, RLOO, DAPO and most others take as it is.

The ratio of a token's probability to its old one is clipped, which bounds what one step can gain.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from agentfly.algorithms.function_types import LossInput, LossOutput
from agentfly.algorithms.ratio import log_ratio
from agentfly.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The range of ratios beyond which nothing more is to be gained."""

    __pydantic_config__ = Settings.model_config

    low: float = 0.2
    """Ratios below 1 - low are clipped."""
    high: float = 0.2
    """Ratios above 1 + high are clipped; more room upwards keeps rare tokens alive
    (arXiv:2503.14476)."""
    dual: float | None = None
    """The most that a token with a negative advantage may cost, as a ratio (arXiv:1912.09729)."""

    def __post_init__(self) -> None:
        if self.low < 0 or self.high < 0:
            raise ValueError(f"low and high must be 0 or more: got {self.low} and {self.high}")
        if self.dual is not None and self.dual <= 1:
            raise ValueError(f"dual must be above 1: got {self.dual}")


def clipped_surrogate(ratio_N: Tensor, advantages_N: Tensor, clip: Clip) -> LossOutput:
    """Return the pessimistic one of the plain and the clipped gain, as a loss."""
    low, high = 1 - clip.low, 1 + clip.high
    gain_N = torch.minimum(ratio_N * advantages_N, ratio_N.clamp(low, high) * advantages_N)
    metrics = {
        "clip_low": (ratio_N < low) & (advantages_N < 0),
        "clip_high": (ratio_N > high) & (advantages_N > 0),
    }
    if clip.dual is not None:
        metrics["clip_dual"] = (ratio_N > clip.dual) & (advantages_N < 0)
        gain_N = gain_N.where(~metrics["clip_dual"], clip.dual * advantages_N)
    return LossOutput(loss_N=-gain_N, metrics=metrics)


USUAL = Clip()
"""The paper's range: a fifth to both sides."""


def clipped(x: LossInput, *, clip: Clip = USUAL) -> LossOutput:
    """Clip the ratio of each token."""
    ratio_N = log_ratio(x.logprobs_N, x.old_logprobs_N).exp()
    return clipped_surrogate(ratio_N, x.advantages_N, clip)
