"""FlexAttention over a packed row, for CUDA: one fused kernel for all of its segments.

A row's segments are laid out branch by branch, so that what follows a segment stands right after
it: a token sees those before it whose segment reaches as far as the token itself.

    p p p | a a | b      reach: 6 6 6 | 5 5 | 6

Letters of the shapes: N tokens of the row, H heads, D width.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from agentfly.training.learner.pack import Segment
from agentfly.training.learner.segment_attention import SegmentAttention, as_autocast, followers

BLOCK = 128
"""Tokens of a block, the unit in which the kernel skips what is masked."""


HEAD_WIDTHS = (16, 32, 64, 128, 256)
"""Widths of a head that the kernel is compiled for; others go segment by segment."""


def attention_for(
    segments: Sequence[Segment], device: torch.device
) -> "SegmentAttention | FlexAttention":
    """Return the attention of a row: fused on CUDA, segment by segment elsewhere."""
    if device.type == "cuda":
        return FlexAttention(segments, device)
    return SegmentAttention(segments)


class FlexAttention:
    """Attends within one row; made once for it, and used by all layers."""

    def __init__(self, segments: Sequence[Segment], device: torch.device) -> None:
        self._segments = SegmentAttention(segments)
        self._mask = block_mask(reach_of(segments).to(device))

    def __call__(self, q_1HND: Tensor, k_1HND: Tensor, v_1HND: Tensor, scale: float) -> Tensor:
        """Return what each token attends to, 1xNxHxD; queries may have more heads than keys."""
        if q_1HND.shape[-1] not in HEAD_WIDTHS:
            return self._segments(q_1HND, k_1HND, v_1HND, scale)
        q_1HND, k_1HND, v_1HND = (as_autocast(x) for x in (q_1HND, k_1HND, v_1HND))
        attend = _kernel(q_1HND.device.type)
        output = attend(q_1HND, k_1HND, v_1HND, block_mask=self._mask, scale=scale, enable_gqa=True)
        attended: Tensor = output.transpose(1, 2)
        return attended


@cache
def _kernel(device: str) -> Callable[..., Any]:
    """Return the function: compiled for GPUs, and as plain operations on processors."""
    plain: Callable[..., Any] = flex_attention
    return plain if device == "cpu" else torch.compile(plain)


def reach_of(segments: Sequence[Segment]) -> Tensor:
    """Return for each token the first position of the row that does not follow its segment.

    >>> reach_of([Segment(start=0, end=3), Segment(start=3, end=5, before=((0, 3),))])
    tensor([5, 5, 5, 5, 5])
    """
    reach_N = torch.empty(segments[-1].end, dtype=torch.long)
    for index, segment in enumerate(segments):
        reach_N[segment.start : segment.end] = followers(segments, index).stop
    return reach_N


def block_mask(reach_N: Tensor) -> BlockMask:
    """Return which blocks a block of queries has to look at, and the rule within them.

    It is made of the blocks' own limits, never of NxN numbers.
    """
    count = len(reach_N)
    blocks = -(-count // BLOCK)
    starts = torch.arange(blocks, device=reach_N.device) * BLOCK
    ends = (starts + BLOCK).clamp_max(count)
    padded = torch.full((blocks * BLOCK,), 0, device=reach_N.device)
    padded[:count] = reach_N
    furthest = padded.view(blocks, BLOCK).amax(1)
    padded[count:] = count
    nearest = padded.view(blocks, BLOCK).amin(1)
    # Blocks of queries go down, blocks of keys go across.
    some = (starts[None] < ends[:, None]) & (starts[:, None] < furthest[None])
    whole = (ends[None] - 1 <= starts[:, None]) & (ends[:, None] <= nearest[None])
    whole &= (ends - starts == BLOCK)[None] & (ends - starts == BLOCK)[:, None]

    def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < reach_N[key])

    partial = _listed(some & ~whole)
    full = _listed(some & whole)
    return BlockMask.from_kv_blocks(
        *partial, *full, BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(count, count)
    )


def _listed(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks of keys each block of queries has, and their numbers, those first."""
    counts = wanted.sum(1, dtype=torch.int32)
    order = torch.argsort(wanted.int(), dim=1, descending=True, stable=True).to(torch.int32)
    return counts[None, None], order[None, None]
