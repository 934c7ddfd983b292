"""RLOO: REINFORCE with the other chains' mean as the baseline (arXiv:2402.14740)."""

from torch import Tensor


def rloo(rewards_G: Tensor) -> Tensor:
    """Take off the mean of the group's other members.

    >>> import torch
    >>> rloo(torch.tensor([1.0, 0.0, 2.0]))
    tensor([ 0.0000, -1.5000,  1.5000])
    """
    others_G = (rewards_G.sum() - rewards_G) / (len(rewards_G) - 1)
    return rewards_G - others_G
