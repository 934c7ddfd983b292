"""Models that the engine can't sample right are refused by name."""

from typing import Any

import pytest
import torch
from tests.engines.local_models import SMALL, family, hf, llama

from agentfly.engines.local import LocalEngine
from agentfly.engines.local.generic_forward import GenericForward
from agentfly.engines.local.llama_forward import LlamaForward
from agentfly.errors import ConfigError


def refused() -> dict[str, tuple[Any, str]]:
    small = {**SMALL, "num_key_value_heads": 2}
    return {
        "sliding window": (
            hf.MistralForCausalLM(hf.MistralConfig(**small, sliding_window=8)),
            r"MistralForCausalLM: its attention slides over a window of 8 tokens",
        ),
        "sliding layers": (
            hf.Qwen2ForCausalLM(
                hf.Qwen2Config(
                    **small, use_sliding_window=True, sliding_window=8, max_window_layers=1
                )
            ),
            "Qwen2ForCausalLM: it has layers of kind sliding_attention",
        ),
        "encoder-decoder": (
            hf.T5ForConditionalGeneration(
                hf.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
            ),
            "T5ForConditionalGeneration: it is an encoder-decoder",
        ),
        "state space": (
            hf.MambaForCausalLM(
                hf.MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, state_size=4)
            ),
            "MambaForCausalLM: it has layers of kind linear_attention",
        ),
        "attention of its own": (
            hf.BloomForCausalLM(hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=1, n_head=2)),
            "BloomForCausalLM: its attention can't be replaced",
        ),
        "soft caps": (
            hf.Gemma2ForCausalLM(
                hf.Gemma2Config(**small, head_dim=16, layer_types=["full_attention"] * 2)
            ),
            "the attention of Gemma2Attention wants softcap",
        ),
        "dynamic rope": (
            llama(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
            "its rotary embedding .dynamic. changes with the length",
        ),
    }


@pytest.mark.parametrize("name", sorted(refused()))
def test_refused_by_name(name: str) -> None:
    model, message = refused()[name]
    with pytest.raises(ConfigError, match=message):
        LocalEngine(model)


@pytest.mark.parametrize("name", sorted(family()))
def test_the_llama_family_takes_the_lean_way(name: str) -> None:
    forward = LocalEngine(family()[name])._core._forward
    lean = name.startswith(("llama", "qwen"))
    assert isinstance(forward, LlamaForward if lean else GenericForward)


def test_a_forward_that_differs_from_the_modules_own_is_refused() -> None:
    model = llama()
    # The lean way takes the layer's own scaling; here the module hides another one.
    original = model.model.layers[0].self_attn.forward
    model.model.layers[0].self_attn.forward = lambda *a, **k: tuple(
        x * 2 if x is not None else x for x in original(*a, **k)
    )
    with pytest.raises(ConfigError, match="other logits than LlamaForCausalLM itself"):
        LocalEngine(model)


class Mixer(torch.nn.Module):
    """An activation in which tokens see their neighbors, as through a shared expert's batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x) + 0.01 * x.mean()


def test_a_model_whose_tokens_touch_has_no_deterministic_mode() -> None:
    model = llama()
    model.model.layers[0].mlp.act_fn = Mixer()
    LocalEngine(model)
    with pytest.raises(ConfigError, match="deterministic mode can't be had for LlamaForCausalLM"):
        LocalEngine(model, deterministic=True)
