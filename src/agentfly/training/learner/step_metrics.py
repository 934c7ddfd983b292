"""Metrics of a learning step: their names, and a recorder of values and times."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean

import torch
from torch import Tensor

from agentfly.algorithms import METRICS as ALGORITHM_METRICS
from agentfly.algorithms import diagnose
from agentfly.training.learner.optimizer import Update
from agentfly.training.learner.peers import Peers
from agentfly.types import ChainCredit, StepMetrics

METRICS: Mapping[str, str] = {
    **ALGORITHM_METRICS,
    "loss": "The objective, mean over the step's updates.",
    "grad_norm": "Norm of the gradient before clipping, mean over the step's updates.",
    "lr": "Learning rate.",
    "critic/lr": "Learning rate of the critic.",
    "updates": "Calls of the optimizer; an update without credit, KL or entropy is skipped.",
    "skipped_updates": "Calls that were left out because a gradient was not finite.",
    "chains": "Scored chains that the step could learn from.",
    "chains_used": "Chains among them that went through the model: those with credit, or all "
    "where a KL or entropy term, or a critic, acts on all.",
    "left_out/<reason>": "Chains that could not be learned from, by stop reason, or unscored.",
    "reward_mean": "Mean reward as the algorithm saw it, over-long punishment included.",
    "reward_std": "Standard deviation of these rewards.",
    "trained_tokens": "Their tokens that carried loss.",
    "total_tokens": "All of their tokens, prompts and observations included.",
    "computed_tokens": "Tokens that went through the model in an update: fewer than the total, "
    "where chains share a prompt.",
    "critic/loss": "The critic's squared error, halved, mean over the step's updates.",
    "critic/grad_norm": "Norm of the critic's gradient before clipping.",
}
"""Every metric of a step, and what it means."""


@dataclass(slots=True)
class StepRecorder:
    """Collects what happens during a step."""

    counts: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    updates: list[Update] = field(default_factory=list)
    means: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Averaged over what was noted."""
    tokens: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))
    """Per token of all microbatches, by metric."""
    entropies: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Positions of trained tokens among those of the step, and the entropies there."""
    credit: list[ChainCredit] = field(default_factory=list)

    @contextmanager
    def timing(self, phase: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        started = time.perf_counter()
        yield
        self.seconds[phase] += time.perf_counter() - started

    def note_tokens(self, metrics: Mapping[str, Tensor]) -> None:
        """Keep what was seen at each token of a microbatch."""
        for name, values_K in metrics.items():
            self.tokens[name].append(values_K.detach().float().cpu())

    def note_entropies(self, places: Tensor, entropies_K: Tensor | None) -> None:
        """Keep the entropies of a microbatch with the positions of its tokens."""
        if entropies_K is not None:
            self.entropies.append((places, entropies_K.detach().float().cpu()))

    def join(self, peers: Peers) -> None:
        """Add what was seen at the tokens of other processes, in the first one."""
        for tokens, entropies in peers.all_of((dict(self.tokens), self.entropies))[1:]:
            self.entropies += entropies
            for name, parts in tokens.items():
                self.tokens[name] += parts

    def step_metrics(self) -> StepMetrics:
        """Sum up."""
        applied = sum(update.applied for update in self.updates)
        skipped = len(self.updates) - applied
        finite = [update.grad_norm for update in self.updates if update.applied]
        metrics = {
            **self.counts,
            **({"grad_norm": fmean(finite)} if finite else {}),
            **{name: fmean(values) for name, values in self.means.items()},
            **self._diagnosed(),
            "updates": applied,
            "skipped_updates": skipped,
        }
        seconds = dict(self.seconds)
        return StepMetrics(metrics=metrics, seconds=seconds, updates=applied, credit=self.credit)

    def _diagnosed(self) -> dict[str, float]:
        joined = {name: torch.cat(parts) for name, parts in self.tokens.items()}
        if not joined:
            return {}
        old_N, sampled_N = joined.pop("old_logprobs"), joined.pop("sampled_logprobs")
        return diagnose(old_logprobs_N=old_N, sampled_logprobs_N=sampled_N, metrics=joined)
