"""A baseline shared by the chains of one group."""

from collections.abc import Callable

import torch
from torch import Tensor

from agentfly.algorithms.credit import chain_rewards
from agentfly.algorithms.function_types import AdvantageFunction, AdvantageInput, AdvantageOutput
from agentfly.algorithms.spread import has_spread

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
    """Tell of each chain whether another one of its group was scored.

    >>> has_sibling(torch.tensor([0, 1, 0]))
    tensor([ True, False,  True])
    """
    return (group_C[:, None] == group_C).sum(dim=1) > 1
