"""Small random models, requests and plain forward passes to hold the local engine against."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import torch
import transformers
from torch import Tensor

from agentfly.engines.local import LocalEngine
from agentfly.types import (
    Completion,
    NamedTensors,
    OnToken,
    Request,
    SamplingParams,
    Seed,
)

# Models this small are fastest on one thread, and tests run beside others.
torch.set_num_threads(1)

VOCABULARY = 300
SECONDS = 60.0
"""Generous: a test that takes so long hangs."""

hf: Any = transformers
"""Its classes are not annotated."""

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def llama(seed: int = 0, **changes: Any) -> Any:
    config = hf.LlamaConfig(
        **{**SMALL, "num_key_value_heads": 2, "max_position_embeddings": 1024, **changes}
    )
    return _spread(hf.LlamaForCausalLM(config), seed)


def family() -> dict[str, Any]:
    """One model of each way through the engine."""
    qwen2 = hf.Qwen2Config(**SMALL, num_key_value_heads=1)
    qwen3 = hf.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=32)
    gpt2 = hf.GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    return {
        "llama": llama(),
        "llama-bias-tied": llama(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
        "qwen2": _spread(hf.Qwen2ForCausalLM(qwen2)),
        "qwen3": _spread(hf.Qwen3ForCausalLM(qwen3)),
        "gpt2": _spread(hf.GPT2LMHeadModel(gpt2)),
        "gpt-neox": _spread(hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**SMALL))),
    }


def _spread(model: Any, seed: int = 0) -> Any:
    """Give it weights with opinions: a fresh model's distribution is nearly flat."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.15, generator=generator)
    return model.eval()


class PieceTokenizer:
    """Bytes, and a few longer pieces that cross the edges of words."""

    PIECES = (b"ab", b"</", b"answer", b">\n", "é".encode(), b"stop", b"st", b"op")

    @property
    def special_ids(self) -> Mapping[str, int]:
        return {}

    @property
    def eos_id(self) -> int | None:
        return None

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        pieces = (self.PIECES[i % 8] if i >= 256 else bytes([i]) for i in ids)
        return b"".join(pieces).decode(errors="replace")


def random_ids(count: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    ids: list[int] = torch.randint(0, VOCABULARY, (count,), generator=generator).tolist()
    return ids


def request(chain: object, turn: int = 0, *, group: str = "g", seed: int = 1) -> Request:
    return Request(
        chain_id=str(chain), group_id=group, turn=turn, seed=Seed(seed).child(str(chain), turn)
    )


async def ask(
    engine: LocalEngine,
    prompt: Sequence[int],
    params: SamplingParams,
    who: Request | None = None,
    on_token: OnToken | None = None,
) -> Completion:
    deadline = asyncio.get_running_loop().time() + SECONDS
    return await engine.sample(
        prompt, params, request=who or request("c"), deadline=deadline, on_token=on_token
    )


@asynccontextmanager
async def running(model: Any, *arguments: Any, **options: Any) -> AsyncIterator[LocalEngine]:
    engine = LocalEngine(model, *arguments, **options)
    try:
        yield engine
    finally:
        await engine.close()


@torch.no_grad()
def plain_logprobs(
    model: Any, prompt: Sequence[int], sampled: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """One forward pass of the module itself over everything."""
    logits: Tensor = model(input_ids=torch.tensor([[*prompt, *sampled]])).logits[0].float()
    table = (logits / (temperature or 1.0)).log_softmax(-1)
    first = len(prompt) - 1
    return [table[first + i, token].item() for i, token in enumerate(sampled)]


def largest_difference(a: Sequence[float], b: Sequence[float]) -> float:
    assert len(a) == len(b)
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def named(state: Mapping[str, Any]) -> NamedTensors:
    """Return a state dict in the form in which it is published."""
    return NamedTensors(stream=state.items)
