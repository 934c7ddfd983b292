"""A batch in packed rows."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agentfly.training.learner.pack import PackedRow, pack
from agentfly.training.learner.packed_forward import Targets, targets_of
from agentfly.training.learner.token_batch import Batch

Pass = Callable[[PackedRow, Targets], Tensor]
"""From a row to one number for each trained token in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Microbatch:
    """One row: what goes through the model at once."""

    row: PackedRow
    targets: Targets
    tokens_K: Tensor
    """Where its trained tokens are in the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How batches become rows."""

    budget: int
    share: bool
    device: torch.device

    def rows(self, batch: Batch) -> list[Microbatch]:
        """Pack a batch."""
        rows = pack(batch.samples, budget=self.budget, share=self.share)
        return [
            Microbatch(
                row=row,
                targets=targets_of(row, batch.samples, self.device),
                tokens_K=batch.tokens_of(row),
            )
            for row in rows
        ]
