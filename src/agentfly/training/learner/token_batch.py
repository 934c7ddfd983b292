"""The trained tokens of a step as flat tensors, and the targets of each.

Letters of the shapes: N trained tokens, sample after sample; C chains; U turns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

import torch
from torch import Tensor

from agentfly.algorithms import AdvantageInput
from agentfly.training.learner.pack import PackedRow
from agentfly.training.learner.packed_forward import trained_positions
from agentfly.training.learner.trainable_chains import Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTargets:
    """Values of each trained token, fixed before the weights change; None where not needed."""

    old_logprobs_N: Tensor | None = None
    reference_logprobs_N: Tensor | None = None
    values_N: Tensor | None = None
    advantages_N: Tensor | None = None
    returns_N: Tensor | None = None
    credited_N: Tensor | None = None
    """False for tokens of chains without credit."""

    def take(self, tokens: Tensor) -> "TokenTargets":
        """Keep some of the tokens."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return TokenTargets(**{name: None if x is None else x[tokens] for name, x in known.items()})


class Batch:
    """Chains, and where each of their trained tokens is among all of them."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.chains = list(chains)
        # A sample whose tokens are all masked would be computed for nothing.
        owned = [(i, s) for i, chain in enumerate(chains) for s in chain.samples if any(s.mask[1:])]
        self.samples = [sample for _, sample in owned]
        tokens = [(s, p) for s in self.samples for p in trained_positions(s)]
        counts = [len(trained_positions(sample)) for sample in self.samples]
        self._starts = [0, *accumulate(counts)]
        self.chain_N = _longs(index for index, _ in owned).repeat_interleave(_longs(counts))
        self.turn_N = _longs(s.turn_index[p] for s, p in tokens)
        """As the chain counts its turns, over all of its samples."""
        self.versions_N = _longs(s.versions[p] for s, p in tokens)
        self.sampled_logprobs_N = torch.tensor([s.logprobs[p] for s, p in tokens])
        self.chain_tokens_C = torch.bincount(self.chain_N, minlength=len(self.chains))

    def __len__(self) -> int:
        """Return the number of trained tokens."""
        return len(self.chain_N)

    def tokens_of(self, row: PackedRow) -> Tensor:
        """Return the index among the N of each trained token of a row, in the row's order."""
        spans = ((self._starts[p.sample], self._starts[p.sample + 1]) for p in row.places)
        return _longs(token for start, end in spans for token in range(start, end))

    def take(self, kept_C: Tensor) -> tuple["Batch", Tensor]:
        """Keep some of the chains; return their tokens' indices among the N as well."""
        kept = [self.chains[index] for index in kept_C.nonzero()[:, 0].tolist()]
        return Batch(kept), kept_C[self.chain_N].nonzero()[:, 0]


def _longs(numbers: Iterable[int]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.long)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A batch as algorithms see it: tokens in order of chain and time, whatever their sample."""

    input: AdvantageInput
    order_N: Tensor

    def back(self, ordered_N: Tensor) -> Tensor:
        """Return to the order of samples."""
        values_N = torch.empty_like(ordered_N)
        values_N[self.order_N] = ordered_N
        return values_N


def timeline(batch: Batch, *, kl_N: Tensor | None, values_N: Tensor | None) -> Timeline:
    """Put a batch in order."""
    turn_N = _turns(batch)
    order_N = torch.argsort(turn_N, stable=True)
    chains = batch.chains
    inner = AdvantageInput(
        rewards_C=torch.tensor([chain.reward for chain in chains]),
        group_C=_longs(chain.group for chain in chains),
        chain_N=batch.chain_N[order_N],
        turn_N=turn_N[order_N],
        chain_U=_longs(index for index, chain in enumerate(chains) for _ in chain.turns),
        rewards_U=torch.tensor([reward for chain in chains for reward in chain.turn_rewards]),
        state_U=_states(chains),
        kl_N=None if kl_N is None else kl_N[order_N],
        values_N=None if values_N is None else values_N[order_N],
    )
    return Timeline(input=inner, order_N=order_N)


def _turns(batch: Batch) -> Tensor:
    """Return each token's turn as an index into all turns of all chains."""
    every = ((c, turn.index) for c, chain in enumerate(batch.chains) for turn in chain.turns)
    place = {turn: index for index, turn in enumerate(every)}
    pairs = zip(batch.chain_N.tolist(), batch.turn_N.tolist(), strict=True)
    return _longs(place[pair] for pair in pairs)


def _states(chains: Sequence[Chain]) -> Tensor:
    numbers: dict[tuple[int, str], int] = {}

    def number(group: int, key: str | None) -> int:
        return -1 if key is None else numbers.setdefault((group, key), len(numbers))

    return _longs(number(chain.group, turn.state_key) for chain in chains for turn in chain.turns)
