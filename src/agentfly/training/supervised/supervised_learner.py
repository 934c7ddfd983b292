"""Supervised updates: raise the likelihood of given samples, in an order fixed by a seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from agentfly.config import TrainSettings
from agentfly.training.learner.memory import Memory, estimate_memory, report_out_of_memory
from agentfly.training.learner.optimizer import Optimizer, learning_rate
from agentfly.training.learner.pack import PackedRow, pack
from agentfly.training.learner.packed_forward import Forward, targets_of
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.step_metrics import StepRecorder
from agentfly.types import Sample, Seed, StepMetrics


class SupervisedLearner:
    """Minimizes the mean negative log-likelihood, with the packing and chunks of a `Learner`."""

    def __init__(self, policy: Policy, train: TrainSettings) -> None:
        """Prepare; the schedule goes over `train.steps` calls of `learn`."""
        self.step = 0
        """Updates so far: the place in the schedule."""
        self._policy = policy
        self._train = train
        self._forward = Forward(
            policy.causal_lm,
            dtype=policy.compute_dtype,
            checkpointing=policy.settings.gradient_checkpointing,
        )
        self._optimizer = Optimizer(policy.trained_by_name, train)

    def memory(self) -> Memory:
        """Estimate what an update will take beyond the weights."""
        return estimate_memory(
            self._forward, self._policy.trained, self._train.tokens_per_microbatch
        )

    def learn(self, samples: Sequence[Sample]) -> StepMetrics:
        """Change the weights once, toward these samples."""
        record = StepRecorder()
        lr = learning_rate(self.step, self._train)
        with record.timing("update"), report_out_of_memory(self._train):
            loss = self._likelihood(samples, backward=True)
            record.updates.append(self._optimizer.update(lr))
        self.step += 1
        record.counts |= {"loss": loss, "lr": lr, "trained_tokens": _trained(samples)}
        return record.step_metrics()

    @torch.no_grad()
    def evaluate(self, samples: Sequence[Sample]) -> float:
        """Return the mean negative log-likelihood of the trained tokens."""
        return self._likelihood(samples, backward=False)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to continue, besides the policy's own weights."""
        return {"step": self.step, "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another learner of the same settings stood."""
        self.step = state["step"]
        self._optimizer.load_state_dict(state["optimizer"])

    def _likelihood(self, samples: Sequence[Sample], *, backward: bool) -> float:
        share = self._train.share_prefixes and self._forward.body.shares_prefixes
        rows = pack(samples, budget=self._train.tokens_per_microbatch, share=share)
        count = max(1, _trained(samples))
        return sum(self._row(row, samples, count, backward=backward) for row in rows)

    def _row(
        self, row: PackedRow, samples: Sequence[Sample], count: int, *, backward: bool
    ) -> float:
        targets = targets_of(row, samples, self._policy.device)
        loss = -self._forward.logprobs(row, targets).sum() / count
        if backward:
            loss.backward()
        return loss.item()


def _trained(samples: Sequence[Sample]) -> int:
    return sum(sum(sample.mask[1:]) for sample in samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """Every epoch goes over every sample once, shuffled by the epoch's own seed.

    A resumed run finds the samples of its next step by the step's number alone.
    """

    samples: Sequence[Sample]
    per_step: int
    epochs: int
    seed: Seed

    @property
    def steps(self) -> int:
        """Number of steps of all epochs; the last one of an epoch may be smaller."""
        return self.epochs * self._steps_per_epoch

    def batch(self, step: int) -> list[Sample]:
        """Return the samples of a step, counted from 1."""
        epoch, place = divmod(step - 1, self._steps_per_epoch)
        seed = self.seed.child("epoch", epoch)
        order = sorted(range(len(self.samples)), key=lambda index: seed.child(index).value)
        chosen = order[place * self.per_step : (place + 1) * self.per_step]
        return [self.samples[index] for index in chosen]

    @property
    def _steps_per_epoch(self) -> int:
        return math.ceil(len(self.samples) / self.per_step)
