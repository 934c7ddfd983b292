"""Estimated memory of each learner process, for models whose weights are not here.

python -m benchmarks.learner_memory         # the table of docs/gpu.md; a minute
"""

from collections.abc import Iterator
from typing import Any

import torch
import transformers

from agentfly.config import LoraSettings
from agentfly.training.learner.model_estimate import process_memory, sizes_of

TOKENS = {"all weights": 16384, "LoRA": 8192, "LoRA on 4 bits": 8192}
"""Tokens of a row, as in the settings of examples/qwen2.5-3b and -7b."""
LORA = LoraSettings(rank=32, alpha=64)
ADAPTERS = {
    "all weights": None,
    "LoRA": LORA,
    "LoRA on 4 bits": LORA.model_copy(update={"base_bits": 4}),
}
PROCESSES = (1, 4, 8)
MODELS: dict[str, dict[str, Any]] = {
    "Qwen2.5-3B": {
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    "Qwen2.5-7B": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
    },
}
"""Sizes of the published config.json files."""


def rows(name: str, kind: str) -> Iterator[str]:
    """Yield a line of the table for each number of processes."""
    qwen: Any = transformers
    lora, dtype = ADAPTERS[kind], torch.bfloat16
    config = qwen.Qwen2Config(**MODELS[name])
    sizes = sizes_of(qwen.Qwen2ForCausalLM, config, lora, dtype=dtype, checkpointing=True)
    alone = lora is not None and lora.base_bits is not None
    for count in (1,) if alone else PROCESSES:
        found = process_memory(
            sizes, lora, TOKENS[kind], count, dtype, reference=True, critic=False
        )
        parts = (found.weights, found.state, found.passes, found.total)
        shown = " | ".join(f"{size / 1e9:.0f}" for size in parts)
        yield f"| {name} | {kind} | {TOKENS[kind]:,} | {count} | {shown} |"


def main() -> None:
    print("| model | trained | tokens of a row | processes | weights | state | passes | all, GB |")
    print("|---|---|---|---|---|---|---|---|")
    for name in MODELS:
        for kind in TOKENS:
            for row in rows(name, kind):
                print(row, flush=True)


if __name__ == "__main__":
    main()
