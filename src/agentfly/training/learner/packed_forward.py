"""From packed rows to the log-probabilities of the tokens that are trained.

Letters of the shapes: N tokens of a row, K trained tokens of the samples in it, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agentfly.errors import ConfigError
from agentfly.training.learner.body import make_body
from agentfly.training.learner.logprob import token_logprobs
from agentfly.training.learner.pack import PackedRow
from agentfly.types import Sample

TOLERANCE = 1e-3
"""Largest relative error of logits, in float32."""


def trained_positions(sample: Sample) -> list[int]:
    """Return where a sample has tokens to train; nothing predicts its first one.

    >>> sample = Sample(token_ids=(9, 4, 2), mask=(False, True, True), logprobs=(0.0, -0.5, -0.1),
    ...                 versions=(-1, 0, 0), turn_index=(0, 0, 0), temperature=1.0,
    ...                 chain_id="t/0/1", group_id="t/0")
    >>> trained_positions(sample)
    [1, 2]
    """
    return [position for position, on in enumerate(sample.mask) if on and position > 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The trained tokens of a row, sample after sample."""

    predictors_K: Tensor
    """Index in the row of the token before each: its hidden state predicts. The last token of a
    prompt predicts the first one of every sample that shares it."""
    ids_K: Tensor
    temperature_K: Tensor
    sample_K: Tensor
    """Which sample each belongs to, as a position in the list that was packed."""


def targets_of(row: PackedRow, samples: Sequence[Sample], device: torch.device) -> Targets:
    """Find what is to be predicted in a row of these samples."""
    predictors: list[int] = []
    ids: list[int] = []
    temperatures: list[float] = []
    owners: list[int] = []
    for place in row.places:
        sample, indices = samples[place.sample], place.indices()
        positions = trained_positions(sample)
        predictors += [indices[position - 1] for position in positions]
        ids += [sample.token_ids[position] for position in positions]
        # Greedy samples are recorded under the unscaled distribution.
        temperatures += [sample.temperature or 1.0] * len(positions)
        owners += [place.sample] * len(positions)
    return Targets(
        predictors_K=torch.tensor(predictors, dtype=torch.long, device=device),
        ids_K=torch.tensor(ids, dtype=torch.long, device=device),
        temperature_K=torch.tensor(temperatures, dtype=torch.float32, device=device),
        sample_K=torch.tensor(owners, dtype=torch.long, device=device),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The log-probability of each target, and the entropy of its distribution."""

    logprobs_K: Tensor
    entropy_K: Tensor


class Forward(nn.Module):
    """A causal language model's log-probabilities over packed rows.

    Embeddings, layers and head are all used inside `forward`, so that FSDP2's `fully_shard` can
    wrap the whole: each part is gathered when it is needed.
    """

    def __init__(self, causal_lm: Any, *, dtype: torch.dtype, checkpointing: bool = False) -> None:
        """Refuse a model whose logits are not simply its head's."""
        super().__init__()
        self._dtype = dtype
        _prove_head(causal_lm, causal_lm.get_output_embeddings())
        self.body = make_body(causal_lm, dtype=dtype, checkpointing=checkpointing)
        self.vocabulary: int = self._head.out_features
        """Number of tokens to choose from."""

    @property
    def _head(self) -> Any:
        return self.body.module.get_output_embeddings()

    def forward(self, row: PackedRow, targets: Targets) -> Predicted:
        """Predict a row's targets."""
        hidden_KD = self.body(row)[targets.predictors_K].to(self._dtype)
        head = self._head
        logprobs_K, entropy_K = token_logprobs(
            hidden_KD,
            head.weight.to(self._dtype),
            None if head.bias is None else head.bias.to(self._dtype),
            targets.ids_K,
            targets.temperature_K,
        )
        return Predicted(logprobs_K=logprobs_K, entropy_K=entropy_K)

    def logprobs(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the log-probabilities of a row's targets."""
        predicted: Predicted = self(row, targets)
        return predicted.logprobs_K


@torch.no_grad()
def _prove_head(causal_lm: Any, head: Any) -> None:
    name = type(causal_lm).__name__
    if type(head) is not nn.Linear:
        raise ConfigError(
            f"the head of {name} is a {type(head).__name__}, and log-probabilities in chunks need "
            "a plain linear layer. Leave the head out of the LoRA targets, or train another model"
        )
    ids = torch.arange(4, device=causal_lm.device)[None] % head.out_features
    theirs = causal_lm(input_ids=ids, use_cache=False).logits
    ours = head(causal_lm.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    error = ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-6)).item()
    if not error <= TOLERANCE:
        raise ConfigError(
            f"the logits of {name} are not what its head returns: they differ by {error:.2g} of "
            "the largest (it scales or caps them, or its weights aren't finite). Train another "
            "model"
        )
