"""Supervised updates: raise the likelihood of given samples, in an order fixed by a seed."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

import torch

from agentfly.config import TrainSettings
from agentfly.training.learner.memory import Memory, estimate_memory, report_out_of_memory
from agentfly.training.learner.optimizer import Optimizer, learning_rate
from agentfly.training.learner.pack import PackedRow, pack
from agentfly.training.learner.packed_forward import Forward, targets_of, trained_positions
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.step_metrics import StepRecorder
from agentfly.types import Sample, Seed, StepMetrics

MIN_TURNS = 20
"""Fewer held-out turns at one place in the conversation say too little about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitation:
    """How well held-out conversations are imitated.

    >>> imitation = Imitation(loss=0.1, exact_turns=((0.9,) * 20, (0.5,) * 20, (0.1,)))
    >>> round(imitation.exact, 3), imitation.exact_at_worst_place
    (0.685, 0.5)
    """

    loss: float
    """Mean negative log-likelihood of the demonstrated tokens."""
    exact_turns: tuple[tuple[float, ...], ...]
    """Probabilities that a turn is sampled token for token: of all first turns, of all second
    ones, and so on."""

    @property
    def exact(self) -> float:
        """Mean probability that a turn is sampled token for token as it was demonstrated."""
        every = [*chain.from_iterable(self.exact_turns)]
        return fmean(every) if every else 0.0

    @property
    def exact_at_worst_place(self) -> float:
        """The same at the place in the conversation (first turn, second, …) where it is lowest."""
        enough = [turns for turns in self.exact_turns if len(turns) >= MIN_TURNS]
        return min(map(fmean, enough), default=self.exact)


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
            count = max(1, _trained(samples))
            loss = sum(self._row(row, samples, count) for row in self._rows(samples))
            record.updates.append(self._optimizer.update(lr))
        self.step += 1
        record.counts |= {"loss": loss, "lr": lr, "trained_tokens": _trained(samples)}
        return record.step_metrics()

    @torch.no_grad()
    def evaluate(self, samples: Sequence[Sample]) -> Imitation:
        """Measure how well samples are imitated that were not trained on."""
        total = 0.0
        by_place: defaultdict[int, list[float]] = defaultdict(list)
        for row in self._rows(samples):
            targets = targets_of(row, samples, self._policy.device)
            logprobs = iter(self._forward.logprobs(row, targets).tolist())
            for place in row.places:
                for turn, logprob in _by_turn(samples[place.sample], logprobs).items():
                    by_place[turn].append(math.exp(logprob))
                    total += logprob
        return Imitation(
            loss=-total / max(1, _trained(samples)),
            exact_turns=tuple(tuple(by_place[turn]) for turn in sorted(by_place)),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to continue, besides the policy's own weights."""
        return {"step": self.step, "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another learner of the same settings stood."""
        self.step = state["step"]
        self._optimizer.load_state_dict(state["optimizer"])

    def _rows(self, samples: Sequence[Sample]) -> list[PackedRow]:
        share = self._train.share_prefixes and self._forward.body.shares_prefixes
        return pack(samples, budget=self._train.tokens_per_microbatch, share=share)

    def _row(self, row: PackedRow, samples: Sequence[Sample], count: int) -> float:
        targets = targets_of(row, samples, self._policy.device)
        loss = -self._forward.logprobs(row, targets).sum() / count
        loss.backward()
        return loss.item()


def _by_turn(sample: Sample, logprobs: Iterator[float]) -> dict[int, float]:
    """Take the log-probabilities of a sample's tokens, and sum them for each turn."""
    sums: defaultdict[int, float] = defaultdict(float)
    for position in trained_positions(sample):
        sums[sample.turn_index[position]] += next(logprobs)
    return sums


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
