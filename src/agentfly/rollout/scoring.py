"""Scoring: one chain while it still holds its environments, a group after they are released."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from agentfly.errors import (
    ConfigError,
    DeadlineError,
    InfrastructureError,
    RewardError,
    boundary,
)
from agentfly.runtime.invoke import supervised
from agentfly.types import Context, Group, GroupReward, Reward, Score, Trajectory, Turn

T = TypeVar("T")


async def score_chain(
    reward: Reward | None, trajectory: Trajectory, context: Context
) -> Score | None:
    """Ask the reward; without one, add up what tools and environment gave at each step.

    Whatever goes wrong is a failure of infrastructure, which leaves the chain unscored.
    """
    if reward is None:
        return sum_step_rewards(trajectory.turns)
    what = f"reward {reward.name!r}"
    score: object = await _within(reward.score(trajectory, context), what, context)
    if not isinstance(score, Score):
        raise RewardError(f"{what} must return a Score, got {score!r}")
    _require_turns(score, trajectory, what)
    return score


async def score_members(
    reward: GroupReward, group: Group, context: Context
) -> Sequence[Score | None]:
    """Ask a group reward for one score, or None, per member."""
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
    """Await a user's reward until the deadline; its mistakes are its own chain's failure."""
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
    """Add up the rewards of the steps; None if no step had one."""
    if all(turn.reward is None for turn in turns):
        return None
    per_turn = tuple(turn.reward or 0.0 for turn in turns)
    return Score(value=sum(per_turn), per_turn=per_turn)
