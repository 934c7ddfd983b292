"""Minibatches: the chains of each update in packed rows, and the denominators of its loss.

All scored chains of a step are distributed over its updates. Those with a gradient go through the
model; the others still count in the denominators, which are sums over all chains of the update.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import torch
from torch import Tensor

from agentfly.training.learner.pack import PackedRow, pack
from agentfly.training.learner.packed_forward import Targets, completion_row, targets_of
from agentfly.training.learner.peers import Peers, share
from agentfly.training.learner.token_batch import Batch
from agentfly.types import Seed

Pass = Callable[[PackedRow, Targets], Tensor]
"""From a row to one number for each trained token in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Microbatch:
    """One row: what goes through the model at once."""

    row: PackedRow
    targets: Targets
    tokens_K: Tensor
    """Positions of its trained tokens in the batch."""

    @property
    def is_empty(self) -> bool:
        """Whether it only keeps step with the passes of other processes."""
        return len(self.tokens_K) == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Packs batches into rows, and deals them to the learner's processes."""

    budget: int
    share: bool
    device: torch.device
    peers: Peers = field(default_factory=Peers)

    def rows(self, batch: Batch) -> list[Microbatch]:
        """Pack a batch."""
        rows = pack(batch.samples, budget=self._fair(batch), share=self.share)
        return [
            Microbatch(
                row=row,
                targets=targets_of(row, batch.samples, self.device),
                tokens_K=batch.tokens_of(row),
            )
            for row in rows
        ]

    def own(self, rows: Sequence[Microbatch]) -> list[Microbatch]:
        """Return the rows of this process, as many as every other one has.

        Processes gather weights together, so each goes through the model equally often.
        """
        if self.peers.size == 1:
            return list(rows)
        hands = share([len(part.row.token_ids) for part in rows], self.peers.size)
        own = [rows[index] for index in hands[self.peers.rank]]
        missing = max(map(len, hands)) - len(own)
        return [_empty(self.device)] * missing + own

    def _fair(self, batch: Batch) -> int:
        """Return the budget of rows, small enough that each process gets some of them."""
        lengths = [len(sample.token_ids) for sample in batch.samples]
        if self.peers.size == 1 or not lengths:
            return self.budget
        return min(self.budget, max(math.ceil(sum(lengths) / self.peers.size), *lengths))


def _empty(device: torch.device) -> Microbatch:
    row, targets = completion_row([0], [], device)
    return Microbatch(row=row, targets=targets, tokens_K=torch.zeros(0, dtype=torch.long))


@dataclass(frozen=True, slots=True, kw_only=True)
class Denominators:
    """Sums over all chains that one update was dealt: those of several processes add up."""

    num_tokens: float
    num_chains: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Minibatch:
    """The chains of one update that go through the model, in the rows that it goes over."""

    batch: Batch
    tokens: Tensor
    """Positions of its trained tokens among those of the step."""
    rows: list[Microbatch]
    own_rows: list[Microbatch]
    """Those that this process computes."""
    denominators: Denominators

    @property
    def computed_tokens(self) -> int:
        """Tokens that go through the model."""
        return sum(len(part.row.token_ids) for part in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The updates of one epoch. All epochs of a step go over the same rows, in their own order."""

    minibatches: list[Minibatch]
    """Without those that nothing goes through."""
    active_C: Tensor
    """The chains that go through the model."""
    num_tokens: int
    """Trained tokens of the step."""

    def in_order(self, epoch: int, seed: Seed) -> list[Minibatch]:
        """Return the order of an epoch: the first one takes them as they were dealt."""
        shuffled = list(self.minibatches)
        if epoch > 0:
            seed.random().shuffle(shuffled)
        return shuffled

    @torch.no_grad()
    def measure(self, one_row: Pass, peers: Peers) -> Tensor:
        """Return one number for each trained token of the step, from the updates' own rows.

        Other rows would give it other last digits, and in bfloat16 there are few before them.
        Tokens that no row holds are not a number.
        """
        numbers_N = torch.zeros(self.num_tokens)
        unknown_N = torch.ones(self.num_tokens, dtype=torch.bool)
        for minibatch in self.minibatches:
            for part in minibatch.own_rows:
                measured_K = one_row(part.row, part.targets).cpu()
                numbers_N[minibatch.tokens[part.tokens_K]] = measured_K
            for part in minibatch.rows:
                unknown_N[minibatch.tokens[part.tokens_K]] = False
        return peers.total(numbers_N).masked_fill(unknown_N, torch.nan)


def make_plan(
    batch: Batch,
    *,
    dealt_C: Tensor,
    active_C: Tensor,
    parts: int,
    seed: Seed,
    packing: Packing,
) -> Plan:
    """Deal a step's chains to its updates.

    Args:
        batch: All scored chains of the step.
        dealt_C: Those that are dealt, and counted in the denominators.
        active_C: Those among them that go through the model.
        parts: How many updates; fewer where there are fewer chains.
        seed: Of who is dealt what.
        packing: How chains are packed.
    """
    dealt = dealt_C.nonzero()[:, 0].tolist()
    minibatches = []
    for hand in deal([batch.chains[chain].group for chain in dealt], parts, seed):
        mine_C = torch.zeros_like(active_C)
        mine_C[[dealt[i] for i in hand]] = True
        part, tokens = batch.take(mine_C & active_C)
        sums = Denominators(
            num_tokens=float(batch.chain_tokens_C[mine_C].sum()), num_chains=float(len(hand))
        )
        rows = packing.rows(part)
        own = packing.own(rows)
        minibatches.append(
            Minibatch(batch=part, tokens=tokens, rows=rows, own_rows=own, denominators=sums)
        )
    found = [minibatch for minibatch in minibatches if minibatch.rows]
    return Plan(minibatches=found, active_C=active_C, num_tokens=len(batch))


def deal(groups_C: Sequence[int], parts: int, seed: Seed) -> list[list[int]]:
    """Split chains into parts of about equal size: by whole groups where there are enough.

    Args:
        groups_C: The group of each chain, groups in one piece.
        parts: How many updates; fewer where there are fewer chains.
        seed: Of the order, the only thing that it depends on.

    >>> deal([0, 0, 1, 1, 2, 2, 3, 3], 2, Seed(0))
    [[4, 5, 0, 1], [2, 3, 6, 7]]
    """
    numbered = range(len(groups_C))
    bundles = [list(chains) for _, chains in groupby(numbered, key=groups_C.__getitem__)]
    if len(bundles) < parts:
        bundles = [[chain] for chain in numbered]
    seed.random().shuffle(bundles)
    count = min(parts, len(bundles))
    cuts = [round(part * len(bundles) / count) for part in range(count + 1)] if count else []
    return [
        [chain for bundle in bundles[start:end] for chain in bundle]
        for start, end in pairwise(cuts)
    ]
