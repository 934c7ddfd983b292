"""From token ids to logits, with attention computed by the caller.

There are two ways: `LlamaForward` for the Llama family, and `GenericForward`, which runs any
Hugging Face decoder with its attention replaced. Either is proven equal to the module's own
forward pass before the first token is sampled.
"""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from agentfly.engines.local.generic_forward import GenericForward
from agentfly.engines.local.key_values import CacheShape
from agentfly.engines.local.llama_forward import LlamaForward, is_llama_family
from agentfly.engines.local.span_attention import Attend
from agentfly.errors import ConfigError

PROBE_TOKENS = 12
"""Length of the probe: enough to detect a wrong position, mask or scale."""

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
"""Maximum difference, relative to the largest logit."""

HALF_TOLERANCE = 0.1
"""The same in half precision, where two correct ways differ by some hundredths."""

WAY_OUT = "Use a decoder with ordinary full attention (Llama, Qwen2, Qwen3, …) or the vllm engine"


class Forward(Protocol):
    """One pass over a flat batch."""

    def __call__(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, picks_P: Tensor
    ) -> Tensor:
        """Return the logits PxV of the tokens at `picks_P`."""


def make_forward(view: Any) -> Forward:
    """Return the forward pass for a module of the engine's own."""
    return LlamaForward(view) if is_llama_family(view) else GenericForward(view)


def refuse_unsupported(model: Any) -> None:
    """Raise ConfigError for anything but a decoder with ordinary full attention."""
    name = type(model).__name__
    reason = _reason(model, model.config.get_text_config(decoder=True))
    if reason is not None:
        raise ConfigError(f"the local engine can't run {name}: {reason}. {WAY_OUT}")


def _reason(model: Any, config: Any) -> str | None:
    if getattr(model.config, "is_encoder_decoder", False):
        return "it is an encoder-decoder"
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        return f"it has layers of kind {', '.join(sorted(kinds))}"
    if _slides(config):
        return f"its attention slides over a window of {config.sliding_window} tokens"
    if not getattr(model, "_supports_attention_backend", False):
        return "its attention can't be replaced (it has none, or keeps it to itself)"
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope in ("dynamic", "longrope"):
        return f"its rotary embedding ({rope}) changes with the length of the sequence"
    return None


def _slides(config: Any) -> bool:
    # Models that name the kind of each layer have been judged by those.
    return (
        getattr(config, "sliding_window", None) is not None
        and getattr(config, "use_sliding_window", True)
        and not getattr(config, "layer_types", None)
    )


def prove_forward(view: Any) -> CacheShape:
    """Return the shape of a module's cache, once the engine's logits are proven right.

    Raises ConfigError where the engine would compute other logits than the module itself.
    """
    count = min(PROBE_TOKENS, view.get_input_embeddings().num_embeddings)
    ids = torch.arange(count, device=view.device)
    probe = _Probe()
    with torch.inference_mode():
        theirs = view(input_ids=ids[None], use_cache=False).logits[0]
        ours = make_forward(view)(ids, ids, probe, ids)
    _check_equal(type(view).__name__, ours.float(), theirs.float(), view.dtype)
    return _cache_shape(type(view).__name__, probe.shapes, view)


def prove_rows_independent(forward: Forward, *, rows: int, view: Any) -> None:
    """Raise ConfigError if a token's logits depend on its place or neighbors in a batch."""
    vocabulary = view.get_input_embeddings().num_embeddings
    ids = torch.arange(rows, device=view.device) % vocabulary
    others = (ids + rows) % vocabulary
    zeros = torch.zeros_like(ids)
    every = torch.arange(rows, device=view.device)
    with torch.inference_mode():
        expected = forward(ids, zeros, _attend_to_itself, every)
        for place in range(rows):
            company = others.clone()
            company[place] = ids[0]
            if not torch.equal(
                forward(company, zeros, _attend_to_itself, every)[place], expected[0]
            ):
                raise ConfigError(
                    f"deterministic mode can't be had for {type(view).__name__} on this machine: "
                    "what a token gets depends on its neighbors in the batch (a mixture of "
                    "experts, or a library for matrix products that isn't reproducible)"
                )


def _attend_to_itself(_layer: int, q: Tensor, k: Tensor, v: Tensor, _scaling: float) -> Tensor:
    """Attention of tokens that each are the first of their sequence."""
    return v.repeat_interleave(q.shape[1] // k.shape[1], dim=1)


class _Probe:
    """Plain causal attention over one sequence, which notes what a cache would have to hold."""

    def __init__(self) -> None:
        self.shapes: dict[int, tuple[int, int]] = {}

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scaling: float) -> Tensor:
        if k.shape != v.shape:
            raise ConfigError(
                f"keys of shape {tuple(k.shape)} with values of shape {tuple(v.shape)}: the local "
                "engine needs them alike. Use another model, or the vllm engine"
            )
        self.shapes[layer] = (k.shape[1], k.shape[2])
        groups = q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(groups, 1).transpose(0, 1)[None] for x in (k, v))
        out = sdpa(q.transpose(0, 1)[None], keys, values, is_causal=True, scale=scaling)
        return out[0].transpose(0, 1)


def _check_equal(name: str, ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> None:
    error = ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-6)).item()
    allowed = TOLERANCE.get(dtype, HALF_TOLERANCE)
    if not error <= allowed:
        raise ConfigError(
            f"the local engine computes other logits than {name} itself: they differ by "
            f"{error:.2g} of the largest, allowed is {allowed:.2g}. Either the weights aren't "
            "finite, or its attention isn't ordinary: use the vllm engine for such a model"
        )


def _cache_shape(name: str, shapes: dict[int, tuple[int, int]], view: Any) -> CacheShape:
    if len(set(shapes.values())) != 1 or set(shapes) != set(range(len(shapes))):
        raise ConfigError(
            f"the layers of {name} have keys of different shapes: {shapes}. The local engine needs "
            "them all alike: use the vllm engine for this model"
        )
    heads, width = shapes[0]
    return CacheShape(
        layers=len(shapes), heads=heads, width=width, dtype=view.dtype, device=view.device
    )
