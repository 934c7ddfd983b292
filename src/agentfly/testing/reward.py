"""Does a reward keep its contract?"""

from agentfly.testing.conformance import Findings
from agentfly.testing.context import make_context
from agentfly.types import Context, Reward, Score, Trajectory


async def check_reward(
    reward: Reward, trajectory: Trajectory, *, context: Context | None = None
) -> Score:
    """Raise ConformanceError unless the reward keeps its contract; return its score."""
    findings = Findings(f"reward {reward.name!r}")
    context = context or make_context(trajectory.task)
    scores: list[Score] = []
    with findings.no_error("scoring"):
        scores = [await reward.score(trajectory, context) for _ in range(2)]
        _check_score(findings, scores[0], turns=len(trajectory.turns))
        findings.expect(scores[0] == scores[1], f"scoring twice gave {scores}")
    findings.report()
    return scores[0]


def _check_score(findings: Findings, score: object, *, turns: int) -> None:
    if not isinstance(score, Score):
        findings.expect(None, f"it returned {score!r}, not a Score")
    elif score.per_turn is not None:
        findings.expect(
            len(score.per_turn) == turns,
            f"it gave {len(score.per_turn)} per-turn values for {turns} turns",
        )
