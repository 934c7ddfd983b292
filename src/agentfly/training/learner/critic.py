"""The critic in training: a model of values, and updates of its weights."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from agentfly.algorithms import Critic as CriticOptions
from agentfly.algorithms import value_loss
from agentfly.config import TrainSettings
from agentfly.training.learner.body import make_body
from agentfly.training.learner.minibatch import Microbatch, Minibatch
from agentfly.training.learner.optimizer import Optimizer
from agentfly.training.learner.pack import PackedRow
from agentfly.training.learner.packed_forward import Targets
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.step_metrics import StepRecorder
from agentfly.training.learner.token_batch import TokenTargets


class Critic:
    """Predicts returns, with weights and an optimizer of its own."""

    def __init__(self, policy: Policy, options: CriticOptions, train: TrainSettings) -> None:
        self._model = ValueModel(policy)
        self._options = options
        self._optimizer = Optimizer(self.trained, train)

    @property
    def trained(self) -> list[Tensor]:
        """The parameters that are trained."""
        return list(self._model.trained().values())

    def values(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the value before each of a row's trained tokens."""
        values_K: Tensor = self._model(row, targets)
        return values_K

    def update(
        self, minibatch: Minibatch, known: TokenTargets, lr: float, record: StepRecorder
    ) -> None:
        """Go over all rows, then change the weights once."""
        total = minibatch.denominators.num_tokens
        losses = [
            self._accumulate(part, total, known.take(part.tokens_K)) for part in minibatch.rows
        ]
        record.means["critic/loss"].append(sum(losses))
        update = self._optimizer.update(lr)
        record.means["critic/grad_norm"].append(update.grad_norm)

    def _accumulate(self, part: Microbatch, num_tokens: float, known: TokenTargets) -> float:
        assert known.values_N is not None, "measured before the update"
        assert known.returns_N is not None, "an algorithm with a critic returns them"
        values_K = self._model(part.row, part.targets)
        found = value_loss(
            values_K,
            known.values_N.to(values_K.device),
            known.returns_N.to(values_K.device),
            clip=self._options.clip_value,
            num_tokens=num_tokens,
        )
        found.loss.backward()
        return found.loss.item()

    def state_dict(self) -> dict[str, Any]:
        """Return its weights and what its optimizer remembers."""
        return {"weights": self._model.trained(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take both over."""
        self._model.load(state["weights"])
        self._optimizer.load_state_dict(state["optimizer"])


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
