"""Centring and scaling, within a group or over a whole batch."""

from torch import Tensor

from agentfly.types.trajectory import differ

EPSILON = 1e-4
"""Added to every standard deviation: a group whose rewards differ by less is not blown up."""


def has_spread(values: Tensor) -> bool:
    """Tell whether there are two values that differ.

    >>> import torch
    >>> has_spread(torch.tensor([0.1 + 0.2, 0.3])), has_spread(torch.tensor([0.0, 1.0]))
    (False, True)
    """
    if not len(values):
        return False
    low, high = values.aminmax()
    return differ(low.item(), high.item())


def standardize(values: Tensor) -> Tensor:
    """Centre, and divide by the unbiased standard deviation; all 0 where there is no spread.

    >>> import torch
    >>> standardize(torch.tensor([0.0, 0.0, 1.0, 1.0]))
    tensor([-0.8659, -0.8659,  0.8659,  0.8659])
    """
    if not has_spread(values):
        return values.new_zeros(len(values))
    return (values - values.mean()) / (values.std() + EPSILON)
