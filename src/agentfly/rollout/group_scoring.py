"""Group rewards: all chains of a task at once, after their environments were released."""

import math
from collections.abc import Sequence
from dataclasses import replace

from agentfly.errors import ConfigError, RewardError, boundary
from agentfly.types import (
    Clock,
    Context,
    EnvSpec,
    Group,
    GroupReward,
    Score,
    Seed,
    StopReason,
    Trajectory,
)


class _NoEnvironments:
    async def get(self, spec: EnvSpec | None) -> object:
        del spec
        raise ConfigError(
            "a group reward gets no environment: the chains have released theirs by then. "
            "Read what you need in a chain's reward, and leave it in context.metadata"
        )


async def score_group(reward: GroupReward, group: Group, *, seed: Seed, clock: Clock) -> Group:
    """Add the group's scores to those of the chains; a failure leaves all of them unscored."""
    context = Context(
        task=group.task,
        group_id=group.id,
        chain_id=None,
        turn=0,
        seed=seed.child("group reward"),
        clock=clock,
        deadline=math.inf,
        environments=_NoEnvironments(),
    )
    try:
        with boundary(RewardError, f"group reward {reward.name!r}"):
            scores = await reward.score_group(group, context)
        _require_one_each(reward, group, scores)
    except RewardError as error:
        return replace(group, members=tuple(_unscored(m, error) for m in group.members))
    members = zip(group.members, scores, strict=True)
    return replace(group, members=tuple(_added(m, s, reward.name) for m, s in members))


def _require_one_each(reward: GroupReward, group: Group, scores: Sequence[Score | None]) -> None:
    if len(scores) != len(group.members):
        raise RewardError(
            f"group reward {reward.name!r} must give one score per chain: "
            f"got {len(scores)} for {len(group.members)} chains"
        )


def _unscored(member: Trajectory, error: RewardError) -> Trajectory:
    if not member.stop.verdict.scored:
        return member
    text = f"{type(error).__name__}: {error}"
    return replace(member, score=None, stop=StopReason.REWARD_FAILED, error=text)


def _added(member: Trajectory, score: Score | None, name: str) -> Trajectory:
    if score is None or not member.stop.verdict.scored:
        return member
    own = member.score or Score(value=0.0)
    parts = {**own.parts, **score.parts, name: score.value}
    return replace(member, score=replace(own, value=own.value + score.value, parts=parts))
