"""The chains of a step that can be trained on, as flat samples; others are counted by reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from agentfly.algorithms import Overlong, overlong_penalty
from agentfly.chat import MaskPolicy, apply_mask
from agentfly.chat.mask import all_sampled, policy_name
from agentfly.errors import CallbackError, ConfigError, TrainingDataError, boundary
from agentfly.types import Group, Sample, TokenStream, Trajectory, Turn


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
    """The trainable chains of a step, and counts of the others."""

    chains: list[Chain]
    """Group after group."""
    left_out: Mapping[str, int]
    """Number of chains that can't be trained on, by reason: a stop reason, or `unscored`."""


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


NOT_SAMPLED = -1
"""The weights version of a token that no weights sampled."""


def make_samples(trajectory: Trajectory, mask: MaskPolicy = all_sampled) -> list[Sample]:
    """Flatten each stream; only sampled tokens that the mask policy leaves on carry loss."""
    if any(turn.completion is None for turn in trajectory.turns):
        raise TrainingDataError(
            f"chain {trajectory.chain_id} has turns without token ids, because its server returns "
            "text only. Train through an engine that returns ids: `local`, `vllm`, or an "
            "OpenAI-compatible server with token ids and log-probabilities"
        )
    turns = trajectory.turns
    keep = dict(zip((t.index for t in turns), _kept(trajectory, mask), strict=True))
    return [_flatten(stream, trajectory, keep) for stream in trajectory.streams]


def _kept(trajectory: Trajectory, mask: MaskPolicy) -> tuple[tuple[bool, ...], ...]:
    """Apply a mask policy; an error names the policy and the chain."""
    where = f"the mask policy {policy_name(mask)}, called with chain {trajectory.chain_id},"
    try:
        with boundary(CallbackError, where):
            return apply_mask(mask, trajectory.turns)
    except ConfigError as error:
        raise ConfigError(f"{where} returned a wrong mask: {error}") from error


def _flatten(
    stream: TokenStream, trajectory: Trajectory, keep: Mapping[int, Sequence[bool]]
) -> Sample:
    flags: list[bool] = []
    logprobs: list[float] = []
    versions: list[int] = []
    turn_index: list[int] = []
    for turn in stream.turns:
        sampled = _sampled(turn, keep[turn.index])
        context = len(turn.context_ids)
        flags += [False] * context + [on for on, _, _ in sampled]
        logprobs += [0.0] * context + [logprob if on else 0.0 for on, logprob, _ in sampled]
        versions += [NOT_SAMPLED] * context + [version for _, _, version in sampled]
        turn_index += [turn.index] * (context + len(sampled))
    return Sample(
        token_ids=stream.token_ids,
        mask=tuple(flags),
        logprobs=tuple(logprobs),
        versions=tuple(versions),
        turn_index=tuple(turn_index),
        temperature=stream.turns[0].temperature,
        chain_id=trajectory.chain_id,
        group_id=trajectory.group_id,
    )


def _sampled(turn: Turn, keep: Sequence[bool]) -> list[tuple[bool, float, int]]:
    completion = turn.completion
    assert completion is not None, "checked before flattening"
    return list(zip(keep, completion.logprobs, completion.version_of_each(), strict=True))
