"""The policy in training: its log-probabilities, updates of its weights, and its reference."""

import copy
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from agentfly.algorithms import Algorithm, LossInput, objective
from agentfly.config import TrainSettings
from agentfly.training.learner.minibatch import Microbatch, Minibatch
from agentfly.training.learner.optimizer import Optimizer
from agentfly.training.learner.pack import PackedRow
from agentfly.training.learner.packed_forward import Forward, Targets
from agentfly.training.learner.peers import Peers
from agentfly.training.learner.policy import Policy, adapters_off
from agentfly.training.learner.sharding import shard
from agentfly.training.learner.step_metrics import StepRecorder
from agentfly.training.learner.token_batch import TokenTargets


class Actor:
    """Changes a policy's weights by an algorithm."""

    def __init__(
        self,
        policy: Policy,
        forward: Forward,
        algorithm: Algorithm,
        train: TrainSettings,
        peers: Peers,
    ) -> None:
        self._forward = forward
        self._algorithm = algorithm
        self._peers = peers
        self.optimizer = Optimizer(policy.trained_by_name, train)

    def logprobs(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the log-probabilities of a row's trained tokens."""
        return self._forward.logprobs(row, targets)

    def update(
        self, minibatch: Minibatch, known: TokenTargets, lr: float, record: StepRecorder
    ) -> None:
        """Go over all rows, then change the weights once; skip what nothing acts on."""
        assert known.credited_N is not None, "credited before it is learned from"
        if not (known.credited_N.any() or self._algorithm.penalizes):
            return
        loss = 0.0
        for part in minibatch.own_rows:
            found = self._loss(part, minibatch, known, record)
            found.backward()
            loss += found.item()
        record.means["loss"].append(self._peers.sum(loss))
        record.updates.append(self.optimizer.update(lr))

    def _loss(
        self, part: Microbatch, minibatch: Minibatch, known: TokenTargets, record: StepRecorder
    ) -> Tensor:
        if part.is_empty:
            return self._forward.logprobs(part.row, part.targets).sum()
        x = self._loss_input(part, minibatch, known.take(part.tokens_K))
        found = objective(self._algorithm, x)
        seen = {"old_logprobs": x.old_logprobs_N, "sampled_logprobs": x.sampled_logprobs_N}
        record.note_tokens({**found.metrics, **seen})
        record.note_entropies(minibatch.tokens[part.tokens_K], x.entropy_N)
        return found.loss

    def _loss_input(self, part: Microbatch, minibatch: Minibatch, known: TokenTargets) -> LossInput:
        predicted = self._forward(part.row, part.targets)
        logprobs_K, entropy_K = predicted.logprobs_K, predicted.entropy_K
        # A single update begins where the step began: these are the old ones.
        old_K = logprobs_K.detach() if known.old_logprobs_N is None else known.old_logprobs_N
        batch, sums = minibatch.batch, minibatch.denominators
        chain_K = batch.chain_N[part.tokens_K]
        assert known.advantages_N is not None, "credited before it is learned from"
        assert known.credited_N is not None, "credited before it is learned from"
        reference_K = known.reference_logprobs_N
        device = logprobs_K.device
        return LossInput(
            logprobs_N=logprobs_K,
            old_logprobs_N=old_K.to(device),
            sampled_logprobs_N=batch.sampled_logprobs_N[part.tokens_K].to(device),
            advantages_N=known.advantages_N.to(device),
            sample_N=part.targets.sample_K.unique(return_inverse=True)[1],
            chain_tokens_N=batch.chain_tokens_C[chain_K].to(device),
            num_tokens=sums.num_tokens,
            num_chains=sums.num_chains,
            reference_logprobs_N=None if reference_K is None else reference_K.to(device),
            entropy_N=entropy_K if self._algorithm.entropy_coefficient else entropy_K.detach(),
            credited_N=None if known.credited_N.all() else known.credited_N.to(device),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what the optimizer remembers; the weights are the policy's to save."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what the optimizer remembered."""
        self.optimizer.load_state_dict(state)


class Reference:
    """The policy as it was: without its adapters, or else a copy in the dtype of computation."""

    def __init__(self, policy: Policy, forward: Forward, peers: Peers) -> None:
        self.root = forward
        self._adapted = policy.adapted
        if policy.adapted:
            return
        frozen = copy.deepcopy(policy.causal_lm).requires_grad_(requires_grad=False)
        self.root = Forward(frozen, dtype=policy.compute_dtype)
        _round(self.root.body.module, policy.compute_dtype, everything=peers.is_sharded)
        if peers.is_sharded:
            shard(
                self.root,
                self.root.body.module,
                peers,
                dtype=policy.compute_dtype,
                offload=peers.settings.offload_reference,
            )

    def logprobs(self, row: PackedRow, targets: Targets) -> Tensor:
        """Return the log-probabilities of a row's trained tokens."""
        off = adapters_off(self.root.body.module) if self._adapted else nullcontext()
        with off:
            return self.root.logprobs(row, targets)


def _round(module: Any, dtype: torch.dtype, *, everything: bool) -> None:
    """Round frozen weights to what they are computed in.

    Unless everything is computed in it, as under FSDP2, matrices alone are: embeddings and norms
    then give the numbers that autocast gives with the policy's own.
    """
    embedded = module.get_input_embeddings().weight
    linear = (layer.weight for layer in module.modules() if isinstance(layer, nn.Linear))
    for weight in module.parameters() if everything else linear:
        if everything or weight is not embedded:
            weight.data = weight.data.to(dtype)
