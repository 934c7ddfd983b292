"""Attention within a packed row: each segment over itself and over what comes before it.

Letters of the shapes: N tokens of the row, S tokens of a segment, T keys, H heads of keys and
values, G queries for each of them, D width.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from transformers import AttentionInterface

from agentfly.engines.local.stand_in import later_hidden, require_ordinary, scale_of
from agentfly.training.learner.pack import Segment

IMPLEMENTATION = "agentfly_segments"
"""The name under which transformers' modules find it."""


class SegmentAttention:
    """Attends within one row; made once for it, and used by all layers."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._lengths = [segment.end - segment.start for segment in segments]
        self._paths = [_path(segment, segments) for segment in segments]
        self._masks: dict[tuple[int, int, torch.dtype], Tensor] = {}

    def __call__(self, q_1GHND: Tensor, k_1HND: Tensor, v_1HND: Tensor, scaling: float) -> Tensor:
        """Return what each token attends to, of the queries' shape."""
        # Split at once: the gradients of slices would each be padded to the whole row.
        queries, keys, values = (x.split(self._lengths, -2) for x in (q_1GHND, k_1HND, v_1HND))
        attended = [
            self._attend(
                segment,
                q,
                _joined([keys[i] for i in path]),
                _joined([values[i] for i in path]),
                scaling,
            )
            for segment, path, q in zip(self._segments, self._paths, queries, strict=True)
        ]
        return torch.cat(attended, dim=-2)

    def _attend(
        self, segment: Segment, q_1GHSD: Tensor, k_1HTD: Tensor, v_1HTD: Tensor, scaling: float
    ) -> Tensor:
        if not segment.before:
            return sdpa(q_1GHSD, k_1HTD, v_1HTD, is_causal=True, scale=scaling, enable_gqa=True)
        # Queries that share a head of keys are folded into its rows, so that no key is copied.
        heads, width = k_1HTD.shape[1], k_1HTD.shape[3]
        folded = q_1GHSD.reshape(1, heads, -1, width)
        mask = self._mask(segment, q_1GHSD.shape[1] // heads, folded)
        out = sdpa(folded, k_1HTD, v_1HTD, attn_mask=mask, scale=scaling)
        return out.reshape(q_1GHSD.shape)

    def _mask(self, segment: Segment, groups: int, like: Tensor) -> Tensor:
        """Hide from each query what comes after it; the same for all segments of equal lengths."""
        before = segment.length_before
        end = before + segment.end - segment.start
        key = (before, end, like.dtype)
        if key not in self._masks:
            self._masks[key] = later_hidden(before, end, groups=groups, like=like)
        return self._masks[key]


def _path(segment: Segment, segments: Sequence[Segment]) -> list[int]:
    """Return the indices of the segments that make up a sequence, from the first to this one."""
    return [
        index
        for start, end in segment.path
        for index, other in enumerate(segments)
        if start <= other.start and other.end <= end
    ]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)


_current: ContextVar[SegmentAttention] = ContextVar("segment_attention")


@contextmanager
def attending(attention: SegmentAttention) -> Iterator[None]:
    """Let all modules with this implementation attend so inside the block."""
    token = _current.set(attention)
    try:
        yield
    finally:
        _current.reset(token)


def recomputing() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a checkpointed layer: of its first pass, and of its second.

    The second one runs in the backward pass, perhaps in another thread, long after the block of
    `attending` was left.
    """
    return nullcontext(), attending(_current.get())


def segment_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    **unusual: object,
) -> tuple[Tensor, None]:
    """Stand in for a module's attention. A policy is trained as it samples: without dropout."""
    require_ordinary(module, unusual)
    attended = _current.get()(query, key, value, scale_of(query, scaling))
    return attended.transpose(1, 2), None


AttentionInterface.register(IMPLEMENTATION, segment_attention)
