"""The critic in training: a model of values, and updates of its weights."""

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn

from agentfly.algorithms import Critic as CriticOptions
from agentfly.algorithms import value_loss
from agentfly.config import TrainSettings
from agentfly.training.learner.body import make_body
from agentfly.training.learner.minibatch import Microbatch, Minibatch
from agentfly.training.learner.optimizer import Optimizer
from agentfly.training.learner.pack import PackedRow
from agentfly.training.learner.packed_forward import Forward, Targets, value_head
from agentfly.training.learner.peers import Peers
from agentfly.training.learner.policy import CRITIC, Policy, adapter_active, adapter_parameters
from agentfly.training.learner.sharding import fill, shard
from agentfly.training.learner.step_metrics import StepRecorder
from agentfly.training.learner.token_batch import TokenTargets


class Critic:
    """Predicts returns, with weights and an optimizer of its own."""

    def __init__(
        self,
        policy: Policy,
        forward: Forward,
        options: CriticOptions,
        train: TrainSettings,
        peers: Peers,
    ) -> None:
        """Make its model: under LoRA, adapters and a head on the policy's own base."""
        self._model: _OwnModel | _AdaptedModel = (
            _AdaptedModel(forward) if policy.adapted else _OwnModel(policy, peers)
        )
        self._options = options
        self._train = train
        self._peers = peers

    @property
    def root(self) -> nn.Module:
        """The module whose `forward` gathers what is sharded."""
        return self._model.root

    def make_optimizer(self) -> None:
        """Make the optimizer, once the weights are where they stay."""
        self.optimizer = Optimizer(self._model.trained(), self._train)

    @property
    def trained(self) -> dict[str, Tensor]:
        """The parameters that are trained, by name."""
        return self._model.trained()

    def values(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the value before each of a row's trained tokens."""
        with self._model.active():
            return self._model.values(row, targets)

    def update(
        self, minibatch: Minibatch, known: TokenTargets, lr: float, record: StepRecorder
    ) -> None:
        """Go over all rows, then change the weights once."""
        total, loss = minibatch.denominators.num_tokens, 0.0
        for part in minibatch.own_rows:
            # A checkpointed layer is computed again in the backward pass.
            with self._model.active():
                found = self._loss(part, total, known.take(part.tokens_K))
                found.backward()
            loss += found.item()
        record.means["critic/loss"].append(self._peers.sum(loss))
        update = self.optimizer.update(lr)
        record.means["critic/grad_norm"].append(update.grad_norm)

    def _loss(self, part: Microbatch, num_tokens: float, known: TokenTargets) -> Tensor:
        assert known.values_N is not None, "measured before the update"
        assert known.returns_N is not None, "an algorithm with a critic returns them"
        values_K = self._model.values(part.row, part.targets)
        if part.is_empty:
            return values_K.sum()
        return value_loss(
            values_K,
            known.values_N.to(values_K.device),
            known.returns_N.to(values_K.device),
            clip=self._options.clip_value,
            num_tokens=num_tokens,
        ).loss

    def state_dict(self) -> dict[str, Any]:
        """Return its weights and what its optimizer remembers."""
        return {"weights": self._model.trained(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take both over."""
        fill(self._model.trained(), state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])


class _OwnModel:
    """A copy of the policy's body, without its head for words, that starts from a value of 0."""

    def __init__(self, policy: Policy, peers: Peers) -> None:
        self.root = ValueModel(policy)
        if peers.is_sharded:
            shard(
                self.root,
                self.root.body.module,
                peers,
                dtype=policy.compute_dtype,
                offload=peers.settings.offload_optimizer,
                exact=[self.root.head],
            )

    def values(self, row: PackedRow, targets: Targets) -> Tensor:
        values_K: Tensor = self.root(row, targets)
        return values_K

    def active(self) -> AbstractContextManager[None]:
        return nullcontext()

    def trained(self) -> dict[str, Tensor]:
        body, head = self.root.body.module, self.root.head
        named = [*body.named_parameters(), *head.named_parameters("value")]
        return {name: parameter for name, parameter in named if parameter.requires_grad}


class ValueModel(nn.Module):
    """The values of a body of its own, and a linear head."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        model: Any = copy.deepcopy(policy.causal_lm)
        words, unused_head = model.get_input_embeddings(), model.get_output_embeddings()
        self.head = value_head(unused_head, policy.device)
        if unused_head.weight is not words.weight:
            model.set_output_embeddings(nn.Identity())
        self.body = make_body(
            model,
            dtype=policy.compute_dtype,
            checkpointing=policy.settings.gradient_checkpointing,
        )

    def forward(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the value before each of a row's trained tokens."""
        hidden_KD = self.body(row)[targets.predictors_K]
        values_K: Tensor = self.head(hidden_KD.float()).sum(-1)
        return values_K


class _AdaptedModel:
    """The policy's own base, with adapters and a head for values."""

    def __init__(self, forward: Forward) -> None:
        self.root = forward

    def values(self, row: PackedRow, targets: Targets) -> Tensor:
        values_K: Tensor = self.root(row, targets, values=True)
        return values_K

    def active(self) -> AbstractContextManager[None]:
        return adapter_active(self.root.body.module, CRITIC)

    def trained(self) -> dict[str, Tensor]:
        """Return them under the names that adapters of a copy of the policy would have."""
        head = self.root.value_head
        assert head is not None, "added before the critic"
        adapters = adapter_parameters(self.root.body.module, CRITIC)
        own = {name.replace(f".{CRITIC}.", ".default."): p for name, p in adapters.items()}
        return {**own, **dict(head.named_parameters("value"))}
