"""The training loop: AdamW, warm-up and cosine, loss on the assistant's tokens, an early stop.

It stops once about a third of the held-out questions are solved: a start from which
reinforcement learning has something to gain and something to hold on to.
"""

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TextIO

from agentfly.models.progress import Progress, quiet
from agentfly.models.tiny.batch import Batch, batches
from agentfly.models.tiny.shape import SHAPES, random_model
from agentfly.models.tiny.solve_rate import solve_rate

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

LOG_NAME = "pretrain.jsonl"

_GLANCE = 32
"""Questions asked while there is little hope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that decides how a model is made."""

    size: str = "tiny"
    seed: int = 0
    max_tokens: int = 6_000_000
    easy_tokens: int = 500_000
    """So long the conversations are easy; over as many again, the full ones come in."""
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
    """Glance first: for most of the run nothing is solved, and asking takes its time."""
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
    """Mean over learned tokens; only there are logits computed at all."""
    from torch.nn.functional import cross_entropy

    hidden_NTd = model.model(batch.ids_NT, use_cache=False).last_hidden_state[:, :-1]
    learned_NT = batch.learned_NT[:, 1:]
    return cross_entropy(model.lm_head(hidden_NTd[learned_NT]), batch.ids_NT[:, 1:][learned_NT])


def _rate(recipe: Recipe, step: int, tokens: int) -> float:
    """Linear warm-up, then a cosine down to a tenth."""
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    cosine = 0.55 + 0.45 * math.cos(math.pi * min(1.0, tokens / recipe.max_tokens))
    return recipe.lr * warm * cosine


def _write(log: TextIO, record: dict[str, object]) -> None:
    log.write(json.dumps(record) + "\n")
    log.flush()
