"""Attention of some queries over some keys, with the log-sum-exp of its scores.

With it, attention over several runs of keys can be merged exactly, forwards and backwards, and no
run needs a mask. torch's own fused kernels return it on processors; `Chunked` works on any device.

Letters of the shapes: H heads of keys and values, G queries for each of them, S queries, T keys,
D width. Keys and values have a dimension of 1 for G.
"""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

CHUNK_BYTES = 2**26
"""Memory for the scores of one chunk of queries."""

CHUNKS_AT_ONCE = 6
"""Tensors of the size of one chunk's scores that a backward pass holds at a time."""


class Kernel(Protocol):
    """Attention and its gradients."""

    def working_bytes(self, heads: int, tokens: int) -> int:
        """Bound its temporary memory, apart from tensors that grow with the tokens of a row."""

    def forward(
        self, q_HGSD: Tensor, k_H1TD: Tensor, v_H1TD: Tensor, *, causal: bool, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Return what each query attends to, and the log-sum-exp of its scores.

        With `causal` there are as many keys as queries, and none attends to a later one.
        """

    def backward(
        self,
        by_output_HGSD: Tensor,
        q_HGSD: Tensor,
        k_H1TD: Tensor,
        v_H1TD: Tensor,
        output_HGSD: Tensor,
        lse_HGS: Tensor,
        *,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients by queries, keys and values.

        Output and log-sum-exp may be those of an attention of which these keys are only a part.
        """


def kernel_for(device: torch.device) -> Kernel:
    """Return the fastest kernel that a device has."""
    fused = device.type == "cpu" and hasattr(
        torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"
    )
    return Fused() if fused else Chunked()


class Fused:
    """The flash attention of torch for processors."""

    def working_bytes(self, heads: int, tokens: int) -> int:
        """Return 0: its scores stay within blocks of a few kilobytes."""
        return 0

    def forward(
        self, q_HGSD: Tensor, k_H1TD: Tensor, v_H1TD: Tensor, *, causal: bool, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Return what each query attends to, and the log-sum-exp of its scores."""
        k_HGTD, v_HGTD = _for_each_query(q_HGSD, k_H1TD, v_H1TD)
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q_HGSD, k_HGTD, v_HGTD, 0.0, causal, scale=scale
        )
        return output, lse

    def backward(
        self,
        by_output_HGSD: Tensor,
        q_HGSD: Tensor,
        k_H1TD: Tensor,
        v_H1TD: Tensor,
        output_HGSD: Tensor,
        lse_HGS: Tensor,
        *,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients by queries, keys and values."""
        k_HGTD, v_HGTD = _for_each_query(q_HGSD, k_H1TD, v_H1TD)
        by_q, by_k, by_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *(by_output_HGSD, q_HGSD, k_HGTD, v_HGTD, output_HGSD, lse_HGS, 0.0, causal),
            scale=scale,
        )
        return by_q, by_k.sum(1, keepdim=True), by_v.sum(1, keepdim=True)


def _for_each_query(q_HGSD: Tensor, k_H1TD: Tensor, v_H1TD: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat keys and values without copying them."""
    groups = q_HGSD.shape[1]
    return k_H1TD.expand(-1, groups, -1, -1), v_H1TD.expand(-1, groups, -1, -1)


class Chunked:
    """Plain matrix products, some queries at a time; the backward pass computes scores again."""

    def working_bytes(self, heads: int, tokens: int) -> int:
        """Return what the scores of one chunk take; in a short row they are all in one."""
        return CHUNKS_AT_ONCE * min(CHUNK_BYTES, 4 * heads * tokens**2)

    def forward(
        self, q_HGSD: Tensor, k_H1TD: Tensor, v_H1TD: Tensor, *, causal: bool, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Return what each query attends to, and the log-sum-exp of its scores."""
        outputs, lses = [], []
        for rows, seen in _chunks(q_HGSD, k_H1TD, causal=causal):
            scores = _scores(q_HGSD, k_H1TD, rows, seen, causal=causal, scale=scale)
            lses.append(scores.logsumexp(-1))
            weights = (scores - lses[-1][..., None]).exp_().to(v_H1TD.dtype)
            outputs.append(weights @ v_H1TD[:, :, seen])
        return torch.cat(outputs, dim=2), torch.cat(lses, dim=2)

    def backward(
        self,
        by_output_HGSD: Tensor,
        q_HGSD: Tensor,
        k_H1TD: Tensor,
        v_H1TD: Tensor,
        output_HGSD: Tensor,
        lse_HGS: Tensor,
        *,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients by queries, keys and values."""
        by_q, by_k, by_v = (torch.zeros_like(x) for x in (q_HGSD, k_H1TD, v_H1TD))
        for rows, seen in _chunks(q_HGSD, k_H1TD, causal=causal):
            q, by_output = q_HGSD[:, :, rows], by_output_HGSD[:, :, rows]
            scores = _scores(q_HGSD, k_H1TD, rows, seen, causal=causal, scale=scale)
            weights = (scores - lse_HGS[:, :, rows, None]).exp_()
            by_v[:, :, seen] += (weights.to(q.dtype).mT @ by_output).sum(1, keepdim=True)
            by_weights = (by_output @ v_H1TD[:, :, seen].mT).to(weights.dtype)
            mean = (by_output * output_HGSD[:, :, rows]).sum(-1, keepdim=True, dtype=weights.dtype)
            by_scores = (weights * (by_weights - mean) * scale).to(q.dtype)
            by_q[:, :, rows] = by_scores @ k_H1TD[:, :, seen]
            by_k[:, :, seen] += (by_scores.mT @ q).sum(1, keepdim=True)
        return by_q, by_k, by_v


def _chunks(q_HGSD: Tensor, k_H1TD: Tensor, *, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Yield some queries at a time, and the keys that the last one of them may attend to."""
    heads, groups, queries, _ = q_HGSD.shape
    keys = k_H1TD.shape[2]
    size = max(1, CHUNK_BYTES // (4 * heads * groups * keys))
    for start in range(0, queries, size):
        end = min(start + size, queries)
        yield slice(start, end), slice(0, end if causal else keys)


def _scores(
    q_HGSD: Tensor, k_H1TD: Tensor, rows: slice, seen: slice, *, causal: bool, scale: float
) -> Tensor:
    scores = (q_HGSD[:, :, rows] @ k_H1TD[:, :, seen].mT).mul_(scale)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if causal:
        positions = torch.arange(seen.stop, device=scores.device)
        scores = scores.masked_fill_(positions > positions[rows, None], -torch.inf)
    return scores
