"""The critic's loss: the squared error, clipped as PPO's policy is (arXiv:1707.06347)."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLoss:
    """The microbatch's share of the step's loss, and where it was clipped."""

    loss: Tensor
    clipped_N: Tensor


def value_loss(
    values_N: Tensor,
    old_values_N: Tensor,
    returns_N: Tensor,
    *,
    clip: float | None,
    num_tokens: float,
) -> ValueLoss:
    """Take the larger error of the value and of the value held near what it was before the step.

    >>> new, old, returns = torch.tensor([3.0]), torch.tensor([1.0]), torch.tensor([2.0])
    >>> float(value_loss(new, old, returns, clip=0.5, num_tokens=1).loss)
    0.5
    """
    distance = float("inf") if clip is None else clip
    held_N = values_N.clamp(old_values_N - distance, old_values_N + distance)
    error_N = (values_N - returns_N).square()
    held_error_N = (held_N - returns_N).square()
    loss = torch.maximum(error_N, held_error_N).sum() / (2 * num_tokens)
    return ValueLoss(loss=loss, clipped_N=held_error_N > error_N)
