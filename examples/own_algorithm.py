"""An algorithm of your own: `python examples/own_algorithm.py` shows its advantages.

`agentfly train examples/own_parts.toml --trust` trains with it.
"""

import torch
from torch import Tensor

from agentfly.algorithms import advantage


@advantage
def rank(rewards_G: Tensor) -> Tensor:
    """Return, for each chain of a group, the share of chains it beats less those that beat it."""
    return torch.sign(rewards_G[:, None] - rewards_G[None, :]).mean(dim=1)


if __name__ == "__main__":
    for rewards in ([1.0, 0.0, 0.0, 0.0], [3.0, 1.0, 1.0, -50.0], [1.0, 1.0, 1.0, 1.0]):
        print(f"rewards {rewards} -> advantages {rank.function(torch.tensor(rewards)).tolist()}")
