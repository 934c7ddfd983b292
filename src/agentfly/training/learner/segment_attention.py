"""Attention within a packed row: each segment over itself and over what comes before it.

A row is a tree of segments. Its attention is done in parts, none of which needs a mask:

    p p p | a a | b | c c c      queries       keys
                                 p p p         p p p     causal: each segment over itself
                                 a a           a a       causal
                                 b             b         causal
                                 c c c         c c c     causal
                                 a a b c c c   p p p     whole: what follows over what it shares

The parts of a token are merged by the log-sum-exp of their scores, which is exact. No key is
copied: memory grows with the tokens of a row alone, however long its sequences are.

Letters of the shapes: N tokens of the row, H heads of keys and values, G queries for each of them,
D width.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from transformers import AttentionInterface

from agentfly.modeling.attention_hooks import require_ordinary, scale_of
from agentfly.training.learner.attention_kernels import kernel_for
from agentfly.training.learner.pack import Segment

IMPLEMENTATION = "agentfly_segments"
"""The name under which transformers' modules find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some queries of a row, and the keys that they attend to."""

    queries: slice
    keys: slice
    causal: bool


def parts_of(segments: Sequence[Segment]) -> list[Part]:
    """Divide a row's attention into parts that need no mask; the causal ones come first.

    >>> for part in parts_of([Segment(start=0, end=3), Segment(start=3, end=5, before=((0, 3),))]):
    ...     print(part.queries, part.keys, part.causal)
    slice(0, 3, None) slice(0, 3, None) True
    slice(3, 5, None) slice(3, 5, None) True
    slice(3, 5, None) slice(0, 3, None) False
    """
    own = [slice(segment.start, segment.end) for segment in segments]
    after = [followers(segments, index) for index in range(len(segments))]
    return [
        *(Part(queries=span, keys=span, causal=True) for span in own),
        *(
            Part(queries=queries, keys=keys, causal=False)
            for queries, keys in zip(after, own, strict=True)
            if queries.start < queries.stop
        ),
    ]


def followers(segments: Sequence[Segment], index: int) -> slice:
    """Return the tokens that a segment comes before in their sequences.

    A tree is laid out branch by branch: they stand right after the segment.
    """
    start, end = segments[index].start, segments[index].end
    last = end
    for segment in segments[index + 1 :]:
        if not any(a <= start and end <= b for a, b in segment.before):
            break
        last = segment.end
    return slice(end, last)


class SegmentAttention:
    """Attends within one row; made once for it, and used by all layers."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._parts = parts_of(segments)

    def __call__(self, q_1HND: Tensor, k_1HND: Tensor, v_1HND: Tensor, scale: float) -> Tensor:
        """Return what each token attends to, 1xNxHxD; queries may have more heads than keys."""
        if q_1HND.device.type != "cpu" and all(part.causal for part in self._parts):
            return self._apart(q_1HND, k_1HND, v_1HND, scale)
        q, k, v = (as_autocast(x)[0] for x in (q_1HND, k_1HND, v_1HND))
        output_HGND: Tensor = _Merged.apply(  # type: ignore[no-untyped-call]
            q.unflatten(0, (len(k), -1)), k[:, None], v[:, None], self._parts, scale
        )
        return output_HGND.permute(2, 0, 1, 3).flatten(1, 2)[None]

    def _apart(self, q_1HND: Tensor, k_1HND: Tensor, v_1HND: Tensor, scale: float) -> Tensor:
        """Attend where nothing is shared, by whatever fused kernel the device has."""
        # Split at once: the gradients of slices would each be padded to the whole row.
        lengths = [part.keys.stop - part.keys.start for part in self._parts]
        segments = zip(*(x.split(lengths, -2) for x in (q_1HND, k_1HND, v_1HND)), strict=True)
        attended = [
            sdpa(q, k, v, is_causal=True, scale=scale, enable_gqa=True) for q, k, v in segments
        ]
        return torch.cat(attended, dim=-2).transpose(1, 2)


def as_autocast(x: Tensor) -> Tensor:
    """Cast what autocast would cast before a fused attention."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


class _Merged(torch.autograd.Function):
    """All parts of a row's attention, merged.

    Given output and log-sum-exp of the whole, the gradients of the parts simply add up.
    """

    @staticmethod
    def forward(
        ctx: Any, q_HGND: Tensor, k_H1ND: Tensor, v_H1ND: Tensor, parts: list[Part], scale: float
    ) -> Tensor:
        kernel = kernel_for(q_HGND.device)
        exact = torch.promote_types(q_HGND.dtype, torch.float32)
        # Laid out as the next layer reads it, which then needs no copy.
        N_first = q_HGND.permute(2, 0, 1, 3)
        output_HGND = N_first.new_empty(N_first.shape, dtype=exact).permute(1, 2, 0, 3)
        lse_HGN = q_HGND.new_empty(q_HGND.shape[:3], dtype=exact)
        for part in parts:
            q, k, v = q_HGND[:, :, part.queries], k_H1ND[:, :, part.keys], v_H1ND[:, :, part.keys]
            output, lse = kernel.forward(q, k, v, causal=part.causal, scale=scale)
            output_so_far, lse_so_far = output_HGND[:, :, part.queries], lse_HGN[:, :, part.queries]
            if part.causal:
                output_so_far.copy_(output)
                lse_so_far.copy_(lse)
            else:
                output_so_far.lerp_(output.to(exact), (lse - lse_so_far).sigmoid_()[..., None])
                lse_so_far.copy_(torch.logaddexp(lse_so_far, lse))
        output_HGND = output_HGND.to(q_HGND.dtype)
        ctx.save_for_backward(q_HGND, k_H1ND, v_H1ND, output_HGND, lse_HGN)
        ctx.parts, ctx.scale = parts, scale
        return output_HGND

    @staticmethod
    def backward(ctx: Any, *by_outputs: Any) -> tuple[Tensor | None, ...]:
        (by_output_HGND,) = by_outputs
        q_HGND, k_H1ND, v_H1ND, output_HGND, lse_HGN = ctx.saved_tensors
        kernel = kernel_for(q_HGND.device)
        by_q, by_k, by_v = (torch.zeros_like(x) for x in (q_HGND, k_H1ND, v_H1ND))
        for part in ctx.parts:
            at, to = (slice(None), slice(None), part.queries), (slice(None), slice(None), part.keys)
            found = kernel.backward(
                *(by_output_HGND[at], q_HGND[at], k_H1ND[to], v_H1ND[to]),
                *(output_HGND[at], lse_HGN[at]),
                causal=part.causal,
                scale=ctx.scale,
            )
            for total, gradient in zip((by_q[at], by_k[to], by_v[to]), found, strict=True):
                total += gradient
        return by_q, by_k, by_v, None, None


class RowAttention(Protocol):
    """Attention within one row, which all layers use."""

    def __call__(self, q_1HND: Tensor, k_1HND: Tensor, v_1HND: Tensor, scale: float) -> Tensor:
        """Return what each token attends to, 1xNxHxD; queries may have more heads than keys."""


_current: ContextVar[RowAttention] = ContextVar("segment_attention")


@contextmanager
def attending(attention: RowAttention) -> Iterator[None]:
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
    return _current.get()(query, key, value, scale_of(query, scaling)), None


AttentionInterface.register(IMPLEMENTATION, segment_attention)
