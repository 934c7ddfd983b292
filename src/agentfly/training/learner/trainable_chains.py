"""From groups to the chains that can be learned from; all others are counted by why they can't."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from agentfly.algorithms import Overlong, overlong_penalty
from agentfly.chat import MaskPolicy
from agentfly.training.learner.sample import make_samples
from agentfly.types import Group, Sample, Trajectory, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A scored chain: one, however many samples it was cut into."""

    group: int
    """Which of the step's groups it belongs to."""
    reward: float
    """As the algorithm sees it."""
    turns: tuple[Turn, ...]
    turn_rewards: tuple[float, ...]
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainableChains:
    """What a step brought."""

    chains: list[Chain]
    """Group after group."""
    left_out: Mapping[str, int]
    """How many chains can't be learned from, by reason: a stop reason, or `unscored`."""


def find_trainable_chains(
    groups: Sequence[Group], mask: MaskPolicy, overlong: Overlong | None = None
) -> TrainableChains:
    """Take the trainable members of all groups."""
    members = [(index, member) for index, group in enumerate(groups) for member in group.members]
    left_out = Counter(_why_left_out(member) for _, member in members if not member.trainable)
    chains = [_chain(g, member, mask, overlong) for g, member in members if member.trainable]
    return TrainableChains(chains=chains, left_out=left_out)


def _why_left_out(member: Trajectory) -> str:
    if not member.stop.verdict.trained:
        return member.stop.value
    if member.score is None:
        return "unscored"
    return "no_token_ids"


def _chain(group: int, member: Trajectory, mask: MaskPolicy, overlong: Overlong | None) -> Chain:
    assert member.score is not None, "a trainable chain is scored"
    turns = member.turns
    return Chain(
        group=group,
        reward=member.score.value - (_too_long(turns, overlong) if overlong else 0.0),
        turns=turns,
        turn_rewards=member.score.per_turn or (0.0,) * len(turns),
        samples=tuple(make_samples(member, mask)),
    )


def _too_long(turns: Sequence[Turn], overlong: Overlong) -> float:
    sampled = sum(len(turn.completion.token_ids) for turn in turns if turn.completion)
    return float(overlong_penalty(torch.tensor([sampled]), overlong))
