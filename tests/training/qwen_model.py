"""A Qwen2 of random weights, with the chat template and special tokens of Qwen2.5."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from benchmarks.template_files import real_templates

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

hf: Any = transformers


def qwen_folder(folder: Path) -> Path:
    """Write the model's folder: biases in its attention, tied embeddings, padded vocabulary."""
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    config = hf.Qwen2Config(
        vocab_size=272,
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
    )
    generator = torch.Generator().manual_seed(0)
    model = hf.Qwen2ForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 or parameter.abs().sum() == 0:
                parameter.normal_(std=0.1, generator=generator)
    model.save_pretrained(folder)
    return folder


def _tokenizer() -> Any:
    """Return a tokenizer of bytes, as Qwen's without its merges."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    made = hf.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL),
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = real_templates()["qwen2_5"].read_text()
    return made
