"""What a chain is worth."""

from typing import Any

from agentfly.environments.scienceworld.environment import ScienceWorld
from agentfly.types import Trajectory


def final_score(trajectory: Trajectory, env: ScienceWorld) -> dict[str, Any]:
    """The score at the end as a share of 100; turn by turn what each turn changed of it."""
    return {
        "reward": env.score / 100,
        "score": env.score,
        "won": float(env.score == 100),
        "per_turn": [turn.reward or 0.0 for turn in trajectory.turns],
    }
