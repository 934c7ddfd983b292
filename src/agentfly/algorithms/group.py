"""Baselines shared by the chains of one group: centering, scaling, and groups without spread."""

from collections.abc import Callable

import torch
from torch import Tensor

from agentfly.algorithms.credit import chain_rewards
from agentfly.algorithms.function_types import AdvantageFunction, AdvantageInput, AdvantageOutput
from agentfly.types.trajectory import differ

EPSILON = 1e-4
"""Added to every standard deviation: a group whose rewards differ by less is not blown up."""


def has_spread(values: Tensor) -> bool:
    """Return whether there are two values that differ.

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


GroupFunction = Callable[[Tensor], Tensor]
"""From the rewards of one group to as many advantages."""


def by_group(function: GroupFunction) -> AdvantageFunction:
    """Make an advantage function of one that looks at a single group's rewards.

    It is never asked about a group with fewer than two scored chains, or whose rewards are all the
    same: such a group compares nothing, and gives no gradient.
    """

    def advantage(x: AdvantageInput) -> AdvantageOutput:
        advantages_C, used_C = within(x.group_C, chain_rewards(x), function)
        return AdvantageOutput(advantages_N=advantages_C[x.chain_N], used_C=used_C)

    return advantage


def within(groups: Tensor, values: Tensor, function: GroupFunction) -> tuple[Tensor, Tensor]:
    """Call a function once for each group's values; say for which of them it was called.

    >>> def center(values_G: Tensor) -> Tensor:
    ...     return values_G - values_G.mean()
    >>> within(torch.tensor([0, 1, 0]), torch.tensor([1.0, 5.0, 2.0]), center)
    (tensor([-0.5000,  0.0000,  0.5000]), tensor([ True, False,  True]))
    """
    results = torch.zeros_like(values)
    used = torch.zeros_like(groups, dtype=torch.bool)
    for group in groups.unique():
        member = groups == group
        if has_spread(values[member]):
            results[member] = function(values[member])
            used |= member
    return results, used


def has_sibling(group_C: Tensor) -> Tensor:
    """Return for each chain whether another one of its group was scored.

    >>> has_sibling(torch.tensor([0, 1, 0]))
    tensor([ True, False,  True])
    """
    return (group_C[:, None] == group_C).sum(dim=1) > 1
