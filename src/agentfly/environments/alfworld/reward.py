"""What a chain is worth."""

from typing import Any

from agentfly.environments.alfworld.environment import Alfworld
from agentfly.types import Trajectory


def success(env: Alfworld) -> dict[str, Any]:
    """1 for a game that is won."""
    return {"reward": float(env.won), "won": float(env.won)}


def share_of_the_way(trajectory: Trajectory, env: Alfworld) -> dict[str, Any]:
    """1 for a game that is won, else the share of the way that was gone; turn by turn."""
    per_turn = [turn.reward or 0.0 for turn in trajectory.turns]
    return {"reward": sum(per_turn), "won": float(env.won), "per_turn": per_turn}
