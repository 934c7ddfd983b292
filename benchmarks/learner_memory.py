"""Estimated memory of each learner process, for models whose weights are not here.

The layers of a model's config.json are made of tensors without values, so that the estimate of a
run (`agentfly.training.learner.memory`) needs neither the weights nor the memory.

    python -m benchmarks.learner_memory         # the table of docs/gpu.md; some minutes
"""

from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from agentfly.config import LoraSettings
from agentfly.training.learner.memory import Memory, estimate_memory, spread_over
from agentfly.training.learner.packed_forward import Forward
from agentfly.training.learner.policy import add_adapters

TOKENS = {"all weights": 16384, "LoRA": 8192}
"""Tokens of a row, as in the settings of examples/qwen2.5-3b and -7b."""
LORA = LoraSettings(rank=32, alpha=64)
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


def estimate(
    config: dict[str, Any], lora: LoraSettings | None, tokens: int
) -> tuple[int, dict[int, Memory]]:
    """Return the number of all weights, and by processes what an update takes beyond them."""
    qwen: Any = transformers
    with torch.device("meta"):
        model = qwen.Qwen2ForCausalLM(qwen.Qwen2Config(**config))
        if lora is not None:
            add_adapters(model, lora, seed=0)
    with FakeTensorMode():
        _pretend_on_cpu(model)
        forward = Forward(model, dtype=torch.bfloat16, checkpointing=True)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        alone = estimate_memory(forward, trained, tokens)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    return numbers, {count: spread_over(alone, forward, count) for count in PROCESSES}


def _pretend_on_cpu(model: nn.Module) -> None:
    """Replace tensors of the device `meta`, on which there is no autocast, by fake ones."""
    made: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, old in module._parameters.items():
            if old is not None and id(old) not in made:
                fake = torch.empty(old.shape, dtype=old.dtype)
                made[id(old)] = nn.Parameter(fake, requires_grad=old.requires_grad)
            module._parameters[name] = None if old is None else made[id(old)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)


def rows(name: str, kind: str) -> Iterator[str]:
    """Yield a line of the table for each number of processes."""
    lora = LORA if kind == "LoRA" else None
    numbers, by_processes = estimate(MODELS[name], lora, TOKENS[kind])
    # Adapters switched off are the reference; without them it is a copy in bfloat16.
    reference = 0 if lora else 2 * numbers
    for count, needed in by_processes.items():
        weights = (4 * numbers + reference) / count
        passes = needed.total - needed.state
        sizes = (weights, needed.state, passes, weights + needed.total)
        shown = " | ".join(f"{size / 1e9:.0f}" for size in sizes)
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
