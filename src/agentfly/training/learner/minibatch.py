"""Which chains each update of a step learns from."""

from collections.abc import Sequence
from itertools import groupby, pairwise

from agentfly.types import Seed


def deal(groups_C: Sequence[int], parts: int, seed: Seed) -> list[list[int]]:
    """Split chains into parts of about equal size: by whole groups where there are enough.

    Args:
        groups_C: The group of each chain, groups in one piece.
        parts: How many updates; fewer where there are fewer chains.
        seed: Of the order, the only thing that it depends on.

    >>> deal([0, 0, 1, 1, 2, 2, 3, 3], 2, Seed(0))
    [[4, 5, 0, 1], [2, 3, 6, 7]]
    """
    numbered = range(len(groups_C))
    bundles = [list(chains) for _, chains in groupby(numbered, key=groups_C.__getitem__)]
    if len(bundles) < parts:
        bundles = [[chain] for chain in numbered]
    seed.random().shuffle(bundles)
    count = min(parts, len(bundles))
    cuts = [round(part * len(bundles) / count) for part in range(count + 1)] if count else []
    return [
        [chain for bundle in bundles[start:end] for chain in bundle]
        for start, end in pairwise(cuts)
    ]
