"""A frozen base in 4 or 8 bits under trained adapters, by bitsandbytes (arXiv:2305.14314).

The linear layers of the base are rounded, in blocks to 4 bits (nf4) or by rows to 8; embeddings,
norms and the head are not. Activations are never rounded, so that rows of other lengths give the
same log-probabilities.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from agentfly.runtime.extra import import_extra


def quantize_base(
    causal_lm: Any, bits: int, *, compute_dtype: torch.dtype, device: torch.device
) -> None:
    """Replace a model's linear layers by rounded ones on a device, in place, one after the other.

    Args:
        causal_lm: A Hugging Face `...ForCausalLM`, without adapters.
        bits: 4 or 8.
        compute_dtype: Dtype of the products with weights of 4 bits.
        device: Where the model goes.
    """
    library = _bitsandbytes()
    head = causal_lm.get_output_embeddings()
    for parent in list(causal_lm.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear and layer is not head:
                rounded = _rounded(library, layer, bits, compute_dtype)
                setattr(parent, name, rounded.to(device))
    # By these, peft chooses the adapters that such layers take.
    causal_lm.is_loaded_in_4bit, causal_lm.is_loaded_in_8bit = bits == 4, bits == 8
    causal_lm.to(device)


def _rounded(library: Any, layer: nn.Linear, bits: int, compute_dtype: torch.dtype) -> Any:
    """Return a layer that is rounded when it is moved to its device."""
    sizes, has_bias = (layer.in_features, layer.out_features), layer.bias is not None
    own = library.nn
    if bits == 4:
        made = own.Linear4bit(*sizes, bias=has_bias, compute_dtype=compute_dtype, quant_type="nf4")
        made.weight = own.Params4bit(layer.weight.data, requires_grad=False, quant_type="nf4")
    else:
        made = _weights_of_8_bits()(*sizes, bias=has_bias, has_fp16_weights=False)
        made.weight = own.Int8Params(layer.weight.data, requires_grad=False, has_fp16_weights=False)
    if has_bias:
        made.bias = layer.bias
    return made


@cache
def _weights_of_8_bits() -> Any:
    """Return a layer of 8 bits that computes with its weight: bitsandbytes rounds the input too."""

    class WeightsOf8Bits(_bitsandbytes().nn.Linear8bitLt):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            product: Tensor = _Product.apply(x, self)  # type: ignore[no-untyped-call]
            return product if self.bias is None else product + self.bias.to(product.dtype)

    return WeightsOf8Bits


class _Product(torch.autograd.Function):
    """A product with a rounded weight, which is made again in the backward pass instead of kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Any) -> Tensor:
        ctx.layer, ctx.dtype = layer, x.dtype
        return linear(x, dequantized(layer).to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        weight = dequantized(ctx.layer).to(gradient.dtype)
        return (gradient @ weight).to(ctx.dtype), None


def quantized_layers(causal_lm: Any) -> dict[str, Any]:
    """Return the rounded layers of a model, by name; none where its base is not quantized."""
    if not (
        getattr(causal_lm, "is_loaded_in_4bit", False)
        or getattr(causal_lm, "is_loaded_in_8bit", False)
    ):
        return {}
    own = _bitsandbytes().nn
    kinds = (own.Linear4bit, own.Linear8bitLt)
    return {name: layer for name, layer in causal_lm.named_modules() if isinstance(layer, kinds)}


def dequantized(layer: Any) -> Tensor:
    """Return the weight that a rounded layer stands for, in float32."""
    functional = _bitsandbytes().functional
    if hasattr(layer.weight, "quant_state"):
        weight: Tensor = functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
        return weight.float()
    wide: Tensor = functional.int8_vectorwise_dequant(layer.weight.data, layer.weight.SCB)
    return wide.float()


def shape_of(layer: Any) -> Tensor:
    """Return a tensor without values of the shape of a rounded layer's weight."""
    return torch.empty(layer.out_features, layer.in_features, device="meta")


def state_name(name: str, quantized: dict[str, Any]) -> tuple[str, str] | None:
    """Return the rounded layer that an entry of a state dict belongs to, and the rest of its name.

    >>> state_name("model.up.weight.absmax", {"model.up": None})
    ('model.up', 'weight.absmax')
    >>> state_name("model.norm.weight", {"model.up": None}) is None
    True
    """
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        layer = ".".join(parts[:end])
        if layer in quantized:
            return layer, ".".join(parts[end:])
    return None


def _bitsandbytes() -> Any:
    return import_extra("bitsandbytes", extra="quantized", purpose="A base in 4 or 8 bits")
