"""Records of what each token of a step was trained with, for people who look at its chains."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from agentfly.training.learner.packed_forward import trained_positions
from agentfly.training.learner.token_batch import Batch
from agentfly.types import ChainCredit, Sample, StreamCredit


def record_credit(
    batch: Batch, advantages_N: Tensor, entropies: Sequence[tuple[Tensor, Tensor]]
) -> list[ChainCredit]:
    """Return the numbers of each chain, token by token.

    Args:
        batch: All scored chains of the step.
        advantages_N: Advantages of their trained tokens.
        entropies: Positions among the N and the entropies there, microbatch by microbatch. The
            first one at a position counts: it was measured before the weights changed.
    """
    entropies_N = torch.full((len(batch),), math.nan)
    for places, values in reversed(entropies):
        entropies_N[places] = values
    tokens = zip(advantages_N.tolist(), entropies_N.tolist(), strict=True)
    return [
        ChainCredit(
            chain_id=chain.samples[0].chain_id,
            streams=tuple(_stream(sample, tokens) for sample in chain.samples),
        )
        for chain in batch.chains
    ]


def _stream(sample: Sample, tokens: Iterator[tuple[float, float]]) -> StreamCredit:
    trained = set(trained_positions(sample))
    numbers = [next(tokens) for _ in trained]
    entropies = tuple(entropy for _, entropy in numbers)
    known = not any(map(math.isnan, entropies))
    return StreamCredit(
        mask=tuple(position in trained for position in range(len(sample.token_ids))),
        advantages=tuple(advantage for advantage, _ in numbers),
        entropies=entropies if known else None,
    )
