"""Group rewards: all chains of a task at once, after their environments were released."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentfly.errors import AgentFlyError, CallbackError, ConfigError
from agentfly.rollout.scoring import score_members
from agentfly.types import (
    Clock,
    Context,
    EnvSpec,
    Group,
    GroupReward,
    Score,
    Seed,
    Span,
    SpanKind,
    StopReason,
    Trajectory,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScoring:
    """How the groups of one run are scored."""

    reward: GroupReward
    clock: Clock
    asked_at: float
    seconds: float
    retries: int

    async def score(self, group: Group, seed: Seed) -> Group:
        """Add the group's scores to those of the chains; a failure leaves all of them unscored."""
        start = self.clock.now()
        for attempt in range(self.retries + 1):
            try:
                scores = await score_members(self.reward, group, self._context(group, seed))
            except CallbackError:
                raise
            except AgentFlyError as error:
                if attempt == self.retries:
                    return self._failed(group, error, start)
            else:
                return self._scored(group, scores, start)
        raise AssertionError("the last attempt returns")

    def _context(self, group: Group, seed: Seed) -> Context:
        return Context(
            task=group.task,
            group_id=group.id,
            chain_id=None,
            turn=0,
            seed=seed.child("group reward"),
            clock=self.clock,
            deadline=self.clock.now() + self.seconds,
            environments=_NoEnvironments(),
        )

    def _scored(self, group: Group, scores: Sequence[Score | None], start: float) -> Group:
        span = self._span(start)
        return replace(
            group,
            members=tuple(
                _added(member, score, self.reward.name, span)
                for member, score in zip(group.members, scores, strict=True)
            ),
        )

    def _failed(self, group: Group, error: AgentFlyError, start: float) -> Group:
        text, span = f"{type(error).__name__}: {error}", self._span(start)
        return replace(group, members=tuple(_unscored(m, text, span) for m in group.members))

    def _span(self, start: float) -> Span:
        return Span(
            kind=SpanKind.REWARD,
            name=self.reward.name,
            turn=None,
            start=start - self.asked_at,
            end=self.clock.now() - self.asked_at,
        )


class _NoEnvironments:
    async def get(self, spec: EnvSpec | None) -> object:
        del spec
        raise ConfigError(
            "a group reward gets no environment: the chains have released theirs by then. "
            "Read what you need in a chain's reward, and leave it in context.metadata"
        )


def _unscored(member: Trajectory, error: str, span: Span) -> Trajectory:
    if not member.stop.verdict.scored:
        return member
    return replace(
        member,
        score=None,
        stop=StopReason.REWARD_FAILED,
        error=error,
        spans=(*member.spans, span),
    )


def _added(member: Trajectory, score: Score | None, name: str, span: Span) -> Trajectory:
    if score is None or not member.stop.verdict.scored:
        return member
    own = member.score or Score(value=0.0)
    added = replace(score, parts={**score.parts, name: score.value})
    return replace(member, score=own.plus(added), spans=(*member.spans, span))
