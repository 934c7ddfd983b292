"""Pre-training of the tiny models: their sizes, batches of conversations, and the training loop.

AdamW, warm-up and cosine, loss on the assistant's tokens. It stops once about a third of the
held-out questions are solved: a start from which reinforcement learning has something to gain and
something to hold on to.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, TextIO

from agentfly.models.model_cache import Progress, quiet
from agentfly.models.tiny.conversation import Conversation, converse, easy
from agentfly.models.tiny.solve_rate import solve_rate
from agentfly.models.tiny.tokenizer import CONTEXT, END, START, VOCABULARY

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase
if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase
if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

LOG_NAME = "pretrain.jsonl"

_GLANCE = 32
"""Questions asked while the first measure is far below the aim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Width and depth of a model."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Conversations, one per row, padded on the right: causal attention then needs no mask.

    They are not packed into longer rows: where attention has little to look at, a small model
    finds what to copy several times sooner.
    """

    ids_NT: "Tensor"
    learned_NT: "Tensor"
    """True on the tokens of assistant turns, the end token included."""
    tokens: int
    """Without the padding."""


def batches(
    tokenizer: "PreTrainedTokenizerBase", *, rows: int, easy_tokens: int, seed: int
) -> Iterator[Batch]:
    """Yield batches without end: easy conversations first, then a growing share of full ones.

    After `easy_tokens` the full ones begin, and after as many again they are all there is.
    """
    rng, past = Random(seed), 0
    while True:
        share = 2.0 - past / easy_tokens
        drawn = [easy(rng) if rng.random() < share else converse(rng) for _ in range(rows)]
        batch = _batch(drawn, tokenizer)
        yield batch
        past += batch.tokens


def learned_tokens(
    ids: Sequence[int], unlearned: frozenset[int], tokenizer: "PreTrainedTokenizerBase"
) -> list[bool]:
    """Return for each token whether an assistant sampled it, in a turn that is to be learned."""
    header, end = tokenizer.encode(f"{START}assistant\n"), tokenizer.convert_tokens_to_ids(END)
    learned, turn, speaking = [], -1, False
    for position, token in enumerate(ids):
        learned.append(speaking and turn not in unlearned)
        if token == end:
            speaking = False
        elif ids[position + 1 - len(header) : position + 1] == header:
            speaking, turn = True, turn + 1
    return learned


def _batch(conversations: Sequence[Conversation], tokenizer: "PreTrainedTokenizerBase") -> Batch:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = [_ids(conversation, tokenizer) for conversation in conversations]
    learned = [
        learned_tokens(row, conversation.unlearned, tokenizer)
        for row, conversation in zip(ids, conversations, strict=True)
    ]
    pad = float(tokenizer.pad_token_id)
    return Batch(
        ids_NT=pad_sequence(
            [torch.tensor(row) for row in ids], batch_first=True, padding_value=pad
        ),
        learned_NT=pad_sequence([torch.tensor(row) for row in learned], batch_first=True),
        tokens=sum(map(len, ids)),
    )


def _ids(conversation: Conversation, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    tools = [dict(tool) for tool in conversation.tools] or None
    text = tokenizer.apply_chat_template(conversation.messages, tools=tools, tokenize=False)
    return list(tokenizer.encode(str(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All settings of a pre-training run."""

    size: str = "tiny"
    seed: int = 0
    max_tokens: int = 6_000_000
    easy_tokens: int = 500_000
    """Tokens of easy conversations at the start; over as many again, the full ones come in."""
    rows: int = 16
    lr: float = 1.5e-3
    warmup_steps: int = 50
    stop_at: float = 0.33
    """Share of held-out questions solved at temperature 1."""
    measure_every: int = 25_000
    """Tokens between two measures."""
    questions: int = 256


def pretrain(
    recipe: Recipe,
    tokenizer: "PreTrainedTokenizerBase",
    folder: Path,
    progress: Progress = quiet,
) -> "LlamaForCausalLM":
    """Train until the measure is reached, and write the log into the folder."""
    model = random_model(SHAPES[recipe.size], tokenizer, seed=recipe.seed)
    with (folder / LOG_NAME).open("w", encoding="utf-8") as log:
        _write(log, {"recipe": asdict(recipe), "parameters": model.num_parameters()})
        _train(model, recipe, tokenizer, log, progress)
    return model


def _train(
    model: "LlamaForCausalLM",
    recipe: Recipe,
    tokenizer: "PreTrainedTokenizerBase",
    log: TextIO,
    progress: Progress,
) -> None:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.01)
    stream = batches(tokenizer, rows=recipe.rows, easy_tokens=recipe.easy_tokens, seed=recipe.seed)
    tokens, losses, started = 0, [], time.monotonic()
    for step, batch in enumerate(stream):
        losses.append(_update(model, optimizer, batch, _rate(recipe, step, tokens)))
        due = (tokens + batch.tokens) // recipe.measure_every > tokens // recipe.measure_every
        tokens += batch.tokens
        if due:
            loss, solved = round(fmean(losses), 4), _measure(model, tokenizer, recipe)
            seconds = round(time.monotonic() - started, 1)
            record = {"step": step, "tokens": tokens, "loss": loss, "solved": solved}
            _write(log, {**record, "seconds": seconds})
            progress(f"loss {loss:.2f}, {solved:.0%} solved", min(1.0, tokens / recipe.max_tokens))
            if solved >= recipe.stop_at or tokens >= recipe.max_tokens:
                return
            losses.clear()


def _measure(
    model: "LlamaForCausalLM", tokenizer: "PreTrainedTokenizerBase", recipe: Recipe
) -> float:
    """Measure with few questions first: for most of the run nothing is solved."""
    solved = solve_rate(model, tokenizer, questions=_GLANCE, seed=recipe.seed)
    if solved < recipe.stop_at / 3:
        return solved
    return solve_rate(model, tokenizer, questions=recipe.questions, seed=recipe.seed)


def _update(model: "LlamaForCausalLM", optimizer: "Optimizer", batch: Batch, rate: float) -> float:
    import torch

    loss = _loss(model, batch)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return float(loss.detach())


def _loss(model: "LlamaForCausalLM", batch: Batch) -> "Tensor":
    """Return the mean loss over learned tokens; logits are computed only there."""
    from torch.nn.functional import cross_entropy

    hidden_NTd = model.model(batch.ids_NT, use_cache=False).last_hidden_state[:, :-1]
    learned_NT = batch.learned_NT[:, 1:]
    return cross_entropy(model.lm_head(hidden_NTd[learned_NT]), batch.ids_NT[:, 1:][learned_NT])


def _rate(recipe: Recipe, step: int, tokens: int) -> float:
    """Return the learning rate: linear warm-up, then a cosine down to a tenth."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    cosine = 0.55 + 0.45 * math.cos(math.pi * min(1.0, tokens / recipe.max_tokens))
    return recipe.lr * warm * cosine


def _write(log: TextIO, record: dict[str, object]) -> None:
    log.write(json.dumps(record) + "\n")
    log.flush()
