"""From a trajectory to samples: one for each of its token streams."""

from collections.abc import Mapping, Sequence

from agentfly.chat import MaskPolicy, apply_mask
from agentfly.chat.mask import all_sampled
from agentfly.errors import TrainingDataError
from agentfly.types import Sample, TokenStream, Trajectory, Turn

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
    keep = dict(zip((t.index for t in turns), apply_mask(mask, turns), strict=True))
    return [_flatten(stream, trajectory, keep) for stream in trajectory.streams]


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
