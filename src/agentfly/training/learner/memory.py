"""What an update takes of memory, estimated by forward passes over a few tokens.

All but a fixed part of it grows with the tokens of a row, however long the sequences in the row are
and whatever they share: two short rows tell both parts, for any model, in any precision.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from agentfly.training.learner.attention_kernels import kernel_for
from agentfly.training.learner.logprob import CHUNK_BYTES
from agentfly.training.learner.pack import PackedRow, Place, Segment
from agentfly.training.learner.packed_forward import Forward, Targets

PROBE_TOKENS = 16
"""Tokens of the shorter row; the other one is twice as long."""

BYTES_PER_PARAMETER = 4 + 8
"""In float32: the gradient, and AdamW's two averages."""

CHUNKS_AT_ONCE = 3
"""Tensors of the size of one chunk's logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What training takes beyond the weights, in bytes."""

    state: float
    """Gradients, and what the optimizer remembers."""
    fixed: float
    """Activations and logits, whatever the length of a row."""
    per_token: float
    """Activations of each token of a row: those that are kept for the backward pass, and those of
    the one layer that it is at."""
    tokens: int
    """Tokens of a full row."""
    copy: float = 0.0
    """An engine's own copy of the weights, where it samples in another dtype."""

    @property
    def total(self) -> float:
        """The most that is needed, while a full row goes through the model."""
        return self.state + self.fixed + self.per_token * self.tokens + self.copy


def estimate_memory(forward: Forward, trained: Iterable[Tensor], tokens: int) -> Memory:
    """Estimate what an update of these parameters takes by rows of so many tokens."""
    fixed, per_token = _kept(forward)
    logits = 4 * tokens * forward.vocabulary
    # The head is done when the layers begin.
    chunks = max(CHUNKS_AT_ONCE * min(logits, CHUNK_BYTES), _scores(forward, tokens))
    return Memory(
        state=BYTES_PER_PARAMETER * sum(parameter.numel() for parameter in trained),
        fixed=fixed + chunks,
        per_token=per_token + _working(forward, per_token),
        tokens=tokens,
    )


def _kept(forward: Forward) -> tuple[float, float]:
    """Return what is kept of any row, and of each of its tokens."""
    short, double = (kept_bytes(forward, n) for n in (PROBE_TOKENS, 2 * PROBE_TOKENS))
    per_token = (double - short) / PROBE_TOKENS
    return short - PROBE_TOKENS * per_token, per_token


def _working(forward: Forward, per_token: float) -> float:
    """Return what the backward pass takes for each token in the one layer that it is at.

    The gradients of the layer's activations take about as much as these, and if the layer is
    checkpointed, the activations are there besides.
    """
    module = forward.body.module
    module.eval()  # Layers are checkpointed in training mode only.
    _, not_checkpointed = _kept(forward)
    module.train()
    layers: int = module.config.get_text_config(decoder=True).num_hidden_layers
    return (1 + (per_token < not_checkpointed)) * not_checkpointed / layers


def _scores(forward: Forward, tokens: int) -> int:
    """Return what the scores of attention take at a time."""
    if not forward.body.shares_prefixes:
        return 0  # The model's own attention is not in chunks.
    module = forward.body.module
    heads: int = module.config.get_text_config(decoder=True).num_attention_heads
    return kernel_for(module.device).working_bytes(heads, tokens)


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
        token_ids=torch.zeros(tokens, dtype=torch.long),
        positions=torch.arange(tokens),
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
