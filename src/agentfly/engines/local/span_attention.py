"""Attention of a flat batch: the tokens of many sequences side by side, each over its own keys.

Letters of the shapes: N tokens of the batch, T keys, H heads of keys and values, G queries for
each of them, D width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from agentfly.engines.local.key_values import KeyValues
from agentfly.modeling.attention_hooks import causal_mask

Attend = Callable[[int, Tensor, Tensor, Tensor, float], Tensor]
"""(layer, queries NxHGxD, keys NxHxD, values NxHxD, scaling) -> attention output NxHGxD."""


@dataclass(frozen=True, slots=True)
class Span:
    """The next `count` tokens of a sequence: one when it decodes, many when it prefills."""

    sequence: KeyValues
    start: int
    count: int

    @property
    def end(self) -> int:
        """Position after the last."""
        return self.start + self.count


@dataclass(slots=True)
class SpanAttention:
    """Writes the new keys and values of each span to its sequence, and attends over them.

    Token by token, the output of a token is a function of its own sequence alone, bit for bit;
    otherwise a span of many tokens is one call, which is faster.
    """

    spans: Sequence[Span]
    token_by_token: bool = False
    _masks: dict[int, Tensor] = field(default_factory=dict)

    def __call__(
        self, layer: int, q_NHGD: Tensor, k_NHD: Tensor, v_NHD: Tensor, scaling: float
    ) -> Tensor:
        """Attend within one layer; rows beyond the spans are padding and come back as zeros."""
        heads, width = k_NHD.shape[1:]
        queries = q_NHGD.reshape(len(q_NHGD), 1, heads, -1, width)
        rows = torch.stack((k_NHD, v_NHD), dim=1).unsqueeze(2)
        attended, first = [], 0
        for index, span in enumerate(self.spans):
            last = first + span.count
            cached = span.sequence.layers[layer]
            if span.count == 1:
                cached.select(3, span.start).copy_(rows[first])
                attended.append(_attend_one(queries[first], cached, span.end, scaling))
            else:
                cached[..., span.start : span.end, :] = rows[first:last].movedim(0, 3)
                attended += self._attend_many(queries[first:last], cached, index, scaling)
            first = last
        if first < len(queries):
            attended.append(queries.new_zeros(queries[first:].squeeze(1).shape))
        return torch.cat(attended).view(q_NHGD.shape)

    def _attend_many(
        self, q_N1HGD: Tensor, cached: Tensor, index: int, scaling: float
    ) -> list[Tensor]:
        span = self.spans[index]
        if self.token_by_token:
            ends = range(span.start + 1, span.end + 1)
            pairs = zip(q_N1HGD, ends, strict=True)
            return [_attend_one(q, cached, end, scaling) for q, end in pairs]
        # Grouped queries are folded into the rows, so that the keys are read once for all of them.
        q_HGND = q_N1HGD.squeeze(1).permute(1, 2, 0, 3)
        folded = q_HGND.flatten(1, 2).unsqueeze(0)
        keys, values = cached[..., : span.end, :].unbind(0)
        mask = self._mask(index, folded, q_HGND.shape[1])
        out = sdpa(folded, keys, values, attn_mask=mask, scale=scaling)
        return [out.view(q_HGND.shape).permute(2, 0, 1, 3)]

    def _mask(self, index: int, queries: Tensor, groups: int) -> Tensor:
        if index not in self._masks:
            span = self.spans[index]
            mask = causal_mask(span.start, span.end, groups=groups, like=queries)
            self._masks[index] = mask
        return self._masks[index]


def _attend_one(q_1HGD: Tensor, cached: Tensor, end: int, scaling: float) -> Tensor:
    keys, values = cached.narrow(3, 0, end).unbind(0)
    return sdpa(q_1HGD, keys, values, scale=scaling)
