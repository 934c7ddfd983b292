"""Scoring one chain, while it still holds its environments."""

from collections.abc import Sequence

from agentfly.errors import RewardError, boundary
from agentfly.types import Context, Reward, Score, Trajectory, Turn


async def score_chain(
    reward: Reward | None, trajectory: Trajectory, context: Context
) -> Score | None:
    """Ask the reward; without one, add up what tools and environment gave at each step."""
    if reward is None:
        return score_of_steps(trajectory.turns)
    with boundary(RewardError, f"reward {reward.name!r}"):
        return await reward.score(trajectory, context)


def score_of_steps(turns: Sequence[Turn]) -> Score | None:
    """Add up the rewards of the steps; None if no step had one."""
    if all(turn.reward is None for turn in turns):
        return None
    per_turn = tuple(turn.reward or 0.0 for turn in turns)
    return Score(value=sum(per_turn), per_turn=per_turn)
