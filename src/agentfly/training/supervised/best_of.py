"""Rejection sampling: of the chains of each group, keep the best.

Chains that failed are never kept, and where rewards decide, an unscored chain is no chain with
reward 0: it has no place among the others at all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agentfly.agents import Agent, RunResult
from agentfly.agents.argument_checks import Rows
from agentfly.errors import ConfigError
from agentfly.types import Trajectory, members_by_group


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The chains that passed, in the order in which they came."""

    trajectories: tuple[Trajectory, ...]
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of the other chains, by reason."""


def keep_best(
    trajectories: Iterable[Trajectory],
    keep: int | None = None,
    *,
    min_reward: float | None = None,
) -> Kept:
    """Leave out failed chains, those with too low a reward, and all but the best of each group.

    Of chains with equal rewards the one with the lower number comes first. With neither `keep` nor
    `min_reward`, unscored chains stay too.
    """
    if keep is not None and keep < 1:
        raise ConfigError(f"`keep` is how many chains of a group stay: at least 1, got {keep}")
    given = list(trajectories)
    by_reward = keep is not None or min_reward is not None
    reasons = [_reason(one, by_reward=by_reward, min_reward=min_reward) for one in given]
    passed = [one for one, reason in zip(given, reasons, strict=True) if reason is None]
    best = passed if keep is None else _best(passed, keep)
    left_out = Counter(reason for reason in reasons if reason is not None)
    if len(best) < len(passed):
        left_out["not among the best of their group"] = len(passed) - len(best)
    return Kept(trajectories=tuple(best), left_out=left_out)


def _reason(trajectory: Trajectory, *, by_reward: bool, min_reward: float | None) -> str | None:
    """Say why a chain is left out; None if it stays."""
    if not trajectory.stop.verdict.trained or not trajectory.turns:
        return "failed"
    if not by_reward:
        return None
    if trajectory.reward is None:
        return "unscored"
    if min_reward is not None and trajectory.reward < min_reward:
        return f"with a reward below {min_reward:g}"
    return None


def _best(trajectories: Sequence[Trajectory], keep: int) -> list[Trajectory]:
    best = {
        id(trajectory)
        for members in members_by_group(trajectories).values()
        for trajectory in sorted(members, key=_rank)[:keep]
    }
    return [trajectory for trajectory in trajectories if id(trajectory) in best]


def _rank(trajectory: Trajectory) -> tuple[float, int]:
    assert trajectory.reward is not None, "unscored chains were left out before"
    number = trajectory.chain_id.rpartition("/")[2]
    return -trajectory.reward, int(number) if number.isdecimal() else 0


async def sample_best(
    agent: Agent,
    rows: Rows,
    *,
    num_chains: int,
    keep: int = 1,
    min_reward: float | None = None,
    seed: int = 0,
) -> RunResult:
    """Run an agent and keep its best chains, as data for a supervised warm start.

    `(await sample_best(agent, rows, num_chains=8)).save("best.jsonl")` writes what `agentfly sft`
    reads.

    Args:
        agent: With a reward, which decides.
        rows: As `Agent.run` takes them.
        num_chains: How many chains of each row there are to choose from.
        keep: How many of them stay, at the most.
        min_reward: What a chain needs to stay; without it the best of a row stays however bad.
        seed: The root of the run's seed tree.
    """
    if agent.reward is None and agent.group_reward is None and agent.environment is None:
        raise ConfigError("nothing tells good chains from bad ones: give the agent a reward")
    result = await agent.run(rows, num_chains=num_chains, seed=seed)
    kept = [
        replace(group, members=keep_best(group.members, keep, min_reward=min_reward).trajectories)
        for group in result.groups
    ]
    return RunResult(groups=tuple(group for group in kept if group.members))
