"""Probability ratios that survive any log-probability."""

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 20.0
"""exp(20) is half a billion: past any bound that a loss clips at, and far from overflow."""


def log_ratio(new_N: Tensor, old_N: Tensor) -> Tensor:
    """Return log(new / old), bounded before anything can be exponentiated.

    >>> log_ratio(torch.tensor([-1.0, 0.0]), torch.tensor([-1.5, -1e30]))
    tensor([ 0.5000, 20.0000])
    """
    return (new_N - old_N).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)


def sequence_mean(values_N: Tensor, sample_N: Tensor) -> Tensor:
    """Give each token the mean over its own sequence.

    >>> sequence_mean(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]))
    tensor([2., 2., 5.])
    """
    counts = torch.bincount(sample_N)
    sums = values_N.new_zeros(len(counts)).index_add(0, sample_N, values_N)
    return (sums / counts)[sample_N]
