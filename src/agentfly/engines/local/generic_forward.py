"""The forward pass of any Hugging Face decoder, with its attention replaced by the engine's.

The module gets the whole flat batch as one row with explicit positions; everything but attention
treats tokens one by one, and attention comes here through transformers' attention interface.
"""

from contextvars import ContextVar
from typing import Any

from torch import Tensor
from transformers import AttentionInterface

from agentfly.engines.local.span_attention import Attend
from agentfly.modeling.attention_hooks import require_ordinary, scale_of

IMPLEMENTATION = "agentfly_spans"

_attend: ContextVar[Attend] = ContextVar("attend")


class GenericForward:
    """Forward pass through a module of the engine's own, whose attention it replaces."""

    def __init__(self, module: Any) -> None:
        AttentionInterface.register(IMPLEMENTATION, _span_attention)
        module.set_attn_implementation(IMPLEMENTATION)
        self._module = module

    def __call__(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, picks_P: Tensor
    ) -> Tensor:
        """Return the logits PxV of the tokens at `picks_P`."""
        token = _attend.set(attend)
        try:
            output = self._module(
                input_ids=ids_N[None],
                position_ids=positions_N[None],
                use_cache=False,
                logits_to_keep=picks_P,
            )
        finally:
            _attend.reset(token)
        logits: Tensor = output.logits[0]
        return logits


def _span_attention(
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
    way_out = ", which the local engine doesn't know. Use the vllm engine for this model"
    require_ordinary(module, unusual, way_out=way_out)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    attended = _attend.get()(module.layer_idx, q, k, v, scale_of(query, scaling))
    return attended[None], None
