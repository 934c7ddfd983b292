"""From packed rows to the log-probabilities of the tokens that are trained.

Letters of the shapes: N tokens of a row, K trained tokens of the samples in it, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agentfly.errors import ConfigError
from agentfly.training.learner.body import has_no_values, make_body
from agentfly.training.learner.logprob import token_logprobs
from agentfly.training.learner.pack import PackedRow, Place, Segment
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


def completion_row(
    prompt: Sequence[int], tokens: Sequence[int], device: torch.device
) -> tuple[PackedRow, Targets]:
    """Make a row of one sequence, whose last tokens are to be predicted at temperature 1."""
    count = len(prompt) + len(tokens)
    row = PackedRow(
        token_ids=torch.tensor([*prompt, *tokens]),
        positions=torch.arange(count),
        segments=(Segment(start=0, end=count),),
        places=(Place(sample=0, path=((0, count),)),),
    )
    targets = Targets(
        predictors_K=torch.arange(len(prompt) - 1, count - 1, device=device),
        ids_K=torch.tensor(tokens, dtype=torch.long, device=device),
        temperature_K=torch.ones(len(tokens), device=device),
        sample_K=torch.zeros(len(tokens), dtype=torch.long, device=device),
    )
    return row, targets


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
        self.dtype = dtype
        _prove_head(causal_lm, causal_lm.get_output_embeddings())
        self.body = make_body(causal_lm, dtype=dtype, checkpointing=checkpointing)
        self.vocabulary: int = self._head.out_features
        """Number of tokens to choose from."""
        self.value_head: nn.Linear | None = None
        """Head of a critic that shares the body, which then has adapters of its own."""

    def add_value_head(self) -> None:
        """Predict values, too."""
        self.value_head = value_head(self._head, self._head.weight.device)

    @property
    def _head(self) -> Any:
        return self.body.module.get_output_embeddings()

    def forward(
        self, row: PackedRow, targets: Targets, *, values: bool = False
    ) -> Predicted | Tensor:
        """Predict a row's targets, or the value before each of them."""
        hidden_KD = self.body(row)[targets.predictors_K]
        if values:
            assert self.value_head is not None, "a critic adds it"
            values_K: Tensor = self.value_head(hidden_KD.float()).sum(-1)
            return values_K
        return self._predicted(hidden_KD.to(self.dtype), targets)

    def _predicted(self, hidden_KD: Tensor, targets: Targets) -> Predicted:
        head = self._head
        logprobs_K, entropy_K = token_logprobs(
            hidden_KD,
            head.weight.to(self.dtype),
            None if head.bias is None else head.bias.to(self.dtype),
            targets.ids_K,
            targets.temperature_K,
        )
        return Predicted(logprobs_K=logprobs_K, entropy_K=entropy_K)

    def logprobs(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the log-probabilities of a row's targets."""
        predicted: Predicted = self(row, targets)
        return predicted.logprobs_K


def value_head(words: Any, device: torch.device) -> nn.Linear:
    """Return a head that gives every hidden state the value 0, in place of one for words."""
    head = nn.Linear(words.in_features, 1, device=device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


@torch.no_grad()
def _prove_head(causal_lm: Any, head: Any) -> None:
    name = type(causal_lm).__name__
    if type(head) is not nn.Linear:
        raise ConfigError(
            f"the head of {name} is a {type(head).__name__}, and log-probabilities in chunks need "
            "a plain linear layer. Leave the head out of the LoRA targets, or train another model"
        )
    if has_no_values(causal_lm):
        return
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
