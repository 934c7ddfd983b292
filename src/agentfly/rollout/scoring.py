"""Scoring: a chain while it still holds its environments, a group after they are released."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agentfly.errors import (
    AgentFlyError,
    CallbackError,
    ConfigError,
    DeadlineError,
    InfrastructureError,
    RewardError,
    boundary,
)
from agentfly.runtime.invoke import supervised
from agentfly.types import (
    Clock,
    Context,
    EnvSpec,
    Group,
    GroupReward,
    Reward,
    Score,
    Seed,
    Span,
    SpanKind,
    StopReason,
    Trajectory,
    Turn,
)

T = TypeVar("T")


async def score_chain(reward: Reward, trajectory: Trajectory, context: Context) -> Score:
    """Score a chain by its reward.

    Every failure is one of infrastructure, which leaves the chain unscored.
    """
    what = f"reward {reward.name!r}"
    score: object = await _within(reward.score(trajectory, context), what, context)
    if not isinstance(score, Score):
        raise RewardError(f"{what} must return a Score, got {score!r}")
    _require_turns(score, trajectory, what)
    return score


async def score_members(
    reward: GroupReward, group: Group, context: Context
) -> Sequence[Score | None]:
    """Return one score, or None, per member of a group."""
    what = f"group reward {reward.name!r}"
    scores: object = await _within(reward.score_group(group, context), what, context)
    if not isinstance(scores, Sequence) or len(scores) != len(group.members):
        raise RewardError(
            f"{what} must return one score per chain: expected a list of {len(group.members)}, "
            f"got {scores!r}"
        )
    wrong = [score for score in scores if not isinstance(score, Score | None)]
    if wrong:
        raise RewardError(f"{what} must return Scores or None, got {wrong[0]!r}")
    for member, score in zip(group.members, scores, strict=True):
        _require_turns(score, member, what)
    return scores


def _require_turns(score: Score | None, trajectory: Trajectory, what: str) -> None:
    try:
        if score is not None:
            score.require_turns(len(trajectory.turns))
    except ValueError as error:
        raise RewardError(f"{what} scored {trajectory.chain_id}: {error}") from error


async def _within(call: Awaitable[T], what: str, context: Context) -> T:
    """Await a user's reward until the deadline; raise RewardError for any mistake in it."""
    try:
        with boundary(RewardError, what):
            async with context.clock.timeout_at(context.deadline):
                return await supervised(call, what)
    except (TimeoutError, DeadlineError, ConfigError) as error:
        reason = str(error) or "it ran out of time"
        raise RewardError(f"{what} failed: {type(error).__name__}: {reason}") from error
    except InfrastructureError:
        raise


def sum_step_rewards(turns: Sequence[Turn]) -> Score | None:
    """Add up the rewards of the steps; None if no step had one.

    An action that the environment refused counts as 0: chains with nothing else are the worst ones,
    and without a score they would be missing from every mean.
    """
    if all(turn.reward is None and not turn.invalid for turn in turns):
        return None
    per_turn = tuple(turn.reward or 0.0 for turn in turns)
    return Score(value=sum(per_turn), per_turn=per_turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScoring:
    """Settings of group scoring, the same for all groups of a run."""

    reward: GroupReward
    clock: Clock
    asked_at: float
    seconds: float
    retries: int

    async def score(self, group: Group, seed: Seed) -> Group:
        """Add the group reward to the chains' scores; a failure leaves all chains unscored."""
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
