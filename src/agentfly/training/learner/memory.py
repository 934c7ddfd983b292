"""What an update takes of memory, foreseen by a forward pass over a few tokens.

All but a fixed part of what autograd keeps for the backward pass grows with the tokens of a row:
two short rows tell both, for any model, in any precision, with checkpointing or without.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from agentfly.training.learner.forward import Forward, Targets
from agentfly.training.learner.logprob import CHUNK_BYTES
from agentfly.training.learner.pack import PackedRow, Place, Segment

PROBE_TOKENS = 16
"""Of the shorter row; the other one is twice as long."""

BYTES_PER_PARAMETER = 4 + 8
"""In float32: the gradient, and AdamW's two averages."""

CHUNKS_AT_ONCE = 3
"""Tensors of the size of one chunk's logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What an update takes beyond the weights, in bytes."""

    state: float
    """Gradients, and what the optimiser remembers."""
    fixed: float
    """Activations and logits, whatever the length of a row."""
    per_token: float
    """Activations of each token of a row."""
    tokens: int
    """Of a full row."""

    @property
    def total(self) -> float:
        """At the most, while a full row goes through the model."""
        return self.state + self.fixed + self.per_token * self.tokens


def foresee(forward: Forward, trained: Iterable[Tensor], tokens: int) -> Memory:
    """Foresee what an update of these parameters takes by rows of so many tokens."""
    short, double = (kept_bytes(forward, n) for n in (PROBE_TOKENS, 2 * PROBE_TOKENS))
    per_token = (double - short) / PROBE_TOKENS
    logits = 4 * tokens * forward.vocabulary
    return Memory(
        state=BYTES_PER_PARAMETER * sum(parameter.numel() for parameter in trained),
        fixed=short - PROBE_TOKENS * per_token + CHUNKS_AT_ONCE * min(logits, CHUNK_BYTES),
        per_token=per_token,
        tokens=tokens,
    )


def kept_bytes(forward: Forward, tokens: int) -> int:
    """Return the size of all that is kept of one row until its backward pass, but the weights."""
    weights = {_place(parameter) for parameter in forward.body.module.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if _place(tensor) not in weights:
            kept[_place(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    row, targets = _probe(tokens, forward.body.module.device)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward(row, targets)
    return sum(kept.values())


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _probe(tokens: int, device: torch.device) -> tuple[PackedRow, Targets]:
    """Make a row of one sequence, in which every token but the first is trained."""
    whole = ((0, tokens),)
    row = PackedRow(
        token_ids=(0,) * tokens,
        positions=tuple(range(tokens)),
        segments=(Segment(start=0, end=tokens),),
        places=(Place(sample=0, path=whole),),
    )
    nothing = torch.zeros(tokens - 1, dtype=torch.long, device=device)
    targets = Targets(
        predictors_K=torch.arange(tokens - 1, device=device),
        ids_K=nothing,
        temperature_K=torch.ones(tokens - 1, device=device),
        sample_K=nothing,
    )
    return row, targets
