"""GRPO (arXiv:2402.03300), and Dr. GRPO, which leaves the scaling out (arXiv:2503.20783)."""

from torch import Tensor

from agentfly.algorithms.group import standardize


def grpo(rewards_G: Tensor, *, scale_by_std: bool = True) -> Tensor:
    """Take off the group's mean, and divide by its spread.

    >>> import torch
    >>> grpo(torch.tensor([1.0, 0.0, 0.0, 0.0]), scale_by_std=False)
    tensor([ 0.7500, -0.2500, -0.2500, -0.2500])
    """
    return standardize(rewards_G) if scale_by_std else rewards_G - rewards_G.mean()
