"""The forward pass of the Llama family (Llama, Qwen2, Qwen3) with nothing but its arithmetic.

It reads the module's own parameters, so that weights changed in place are seen at once. Fused
projections were measured and set aside: with one thread for each part of the batch they gain
nothing, and they would need a copy of the weights.
"""

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from agentfly.engines.local.span_attention import Attend

FAMILY = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")

ROTARY_BLOCK = 1024
"""Positions for which the rotary table is made at a time."""


def is_llama_family(module: Any) -> bool:
    """Return whether a module is of the family, with ordinary linear layers (no adapters)."""
    if type(module).__name__ not in FAMILY:
        return False
    names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")
    projections = (m for name, m in module.named_modules() if name.rpartition(".")[2] in names)
    return all(type(projection) is nn.Linear for projection in projections)


@dataclass(frozen=True, slots=True)
class _Projection:
    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Tensor
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return self.weight * (wide * scale).to(x.dtype)


class _Layer:
    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.before_attention = _norm(layer.input_layernorm)
        self.before_mlp = _norm(layer.post_attention_layernorm)
        self.q, self.k, self.v, self.o, self.gate, self.up, self.down = (
            _Projection(linear.weight, linear.bias)
            for linear in (
                *(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj),
                *(mlp.gate_proj, mlp.up_proj, mlp.down_proj),
            )
        )
        # Qwen3 normalizes each head's queries and keys.
        self.q_norm = _norm(attention.q_norm) if hasattr(attention, "q_norm") else None
        self.k_norm = _norm(attention.k_norm) if hasattr(attention, "k_norm") else None
        self.width = attention.head_dim
        self.scaling = attention.scaling
        self.activation = mlp.act_fn


def _norm(norm: Any) -> _Norm:
    return _Norm(norm.weight, norm.variance_epsilon)


class LlamaForward:
    """Forward pass of the Llama family over the module's own parameters."""

    def __init__(self, module: Any) -> None:
        self._embed = module.model.embed_tokens.weight
        self._layers = [_Layer(layer) for layer in module.model.layers]
        self._norm = _norm(module.model.norm)
        self._head = _Projection(module.lm_head.weight, module.lm_head.bias)
        self._rotary = module.model.rotary_emb
        self._table = self._make_table(ROTARY_BLOCK)
        self._growing = threading.Lock()

    def __call__(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, picks_P: Tensor
    ) -> Tensor:
        """Return the logits PxV of the tokens at `picks_P`."""
        x = embedding(ids_N, self._embed)
        cos, sin = self._rotation(positions_N)
        for index, layer in enumerate(self._layers):
            x = x + self._attention(index, layer, x, cos, sin, attend)
            normed = layer.before_mlp(x)
            x = x + layer.down(layer.activation(layer.gate(normed)) * layer.up(normed))
        return self._head(self._norm(x[picks_P]))

    def _attention(
        self, index: int, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend
    ) -> Tensor:
        normed = layer.before_attention(x)
        q, k, v = (p(normed).unflatten(-1, (-1, layer.width)) for p in (layer.q, layer.k, layer.v))
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = layer.q_norm(q), layer.k_norm(k)
        turned = _rotate(torch.cat((q, k), dim=1), cos, sin)
        q, k = turned.split((q.shape[1], k.shape[1]), dim=1)
        return layer.o(attend(index, q, k, v, layer.scaling).flatten(1))

    def _rotation(self, positions_N: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self._table_of(int(positions_N.max()) + 1)[:, positions_N].unsqueeze(2)
        return cos, sin

    def _table_of(self, length: int) -> Tensor:
        # Shards run side by side, and none may take away the longer table of another.
        with self._growing:
            if length > self._table.shape[1]:
                self._table = self._make_table(-(-length // ROTARY_BLOCK) * ROTARY_BLOCK)
            return self._table

    def _make_table(self, length: int) -> Tensor:
        positions = torch.arange(length, device=self._embed.device)[None]
        return torch.cat(self._rotary(self._embed, positions))


def _rotate(x_NHD: Tensor, cos_N1D: Tensor, sin_N1D: Tensor) -> Tensor:
    left, right = x_NHD.chunk(2, dim=-1)
    return x_NHD * cos_N1D + torch.cat((-right, left), dim=-1) * sin_N1D
