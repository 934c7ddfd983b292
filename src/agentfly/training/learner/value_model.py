"""A body of its own with one number for a head."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from agentfly.training.learner.body import make_body
from agentfly.training.learner.pack import PackedRow
from agentfly.training.learner.packed_forward import Targets
from agentfly.training.learner.policy import Policy


class ValueModel(nn.Module):
    """Starts as the policy's body, adapters included, and from a value of 0 everywhere."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        model: Any = copy.deepcopy(policy.causal_lm)
        words, unused_head = model.get_input_embeddings(), model.get_output_embeddings()
        if unused_head.weight is not words.weight:
            unused_head.requires_grad_(requires_grad=False)
        self._head = nn.Linear(unused_head.in_features, 1, device=policy.device)
        nn.init.zeros_(self._head.weight)
        nn.init.zeros_(self._head.bias)
        self._body = make_body(
            model,
            dtype=policy.compute_dtype,
            checkpointing=policy.settings.gradient_checkpointing,
        )

    def forward(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the value before each of a row's trained tokens."""
        hidden_KD = self._body(row)[targets.predictors_K]
        values_K: Tensor = self._head(hidden_KD.float())[:, 0]
        return values_K

    def trained(self) -> dict[str, Tensor]:
        """Return the parameters that are trained, by name."""
        named = [*self._body.module.named_parameters(), *self._head.named_parameters("value")]
        return {name: parameter for name, parameter in named if parameter.requires_grad}

    @torch.no_grad()
    def load(self, trained: dict[str, Tensor]) -> None:
        """Take trained parameters over, in place."""
        for name, parameter in self.trained().items():
            parameter.copy_(trained[name])
