"""The sizes of the tiny models, and models of these sizes with random weights."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentfly.models.tiny.tokenizer import CONTEXT, VOCABULARY

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How wide and how deep."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int


SHAPES = {
    "tiny": Shape(hidden=128, layers=4, heads=4, kv_heads=2, feed_forward=320),
    "tiny-5m": Shape(hidden=256, layers=6, heads=8, kv_heads=4, feed_forward=704),
    "tiny-15m": Shape(hidden=384, layers=8, heads=12, kv_heads=4, feed_forward=1152),
}
"""1.1, 5.2 and 14.9 million parameters, the tied embeddings included."""


def random_model(
    shape: Shape, tokenizer: "PreTrainedTokenizerBase", *, seed: int
) -> "LlamaForCausalLM":
    """Make a Llama with random weights; the same seed gives the same weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        # At the default of 0.02 so narrow a model attends evenly to everything for a long time.
        initializer_range=shape.hidden**-0.5,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
