"""How well held-out tasks are solved. What each name means is said in `metrics`."""

from collections.abc import Iterator, Sequence

from agentfly.observe.estimate import (
    Interval,
    mean,
    mean_interval,
    pass_at_k,
    wilson_interval,
)
from agentfly.observe.rollout_metrics import Measured, by_source
from agentfly.observe.summary import SOLVED, ratio
from agentfly.types import Group


def evaluation_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Measure held-out groups, over all of them and for each named source."""
    return by_source(groups, _measure)


def _measure(groups: Sequence[Group]) -> Measured:
    chains = [member for group in groups for member in group.members]
    failed = sum(chain.stop.verdict.failure for chain in chains)
    rewards_by_task = _rewards_by_task(groups)
    return {
        **_reward(rewards_by_task),
        **_solved(rewards_by_task),
        **_passes(rewards_by_task),
        "eval/tasks": float(len(rewards_by_task)),
        "eval/chains": float(len(chains)),
        "eval/failed_share": ratio(failed, len(chains)),
    }


def _rewards_by_task(groups: Sequence[Group]) -> list[list[float]]:
    """Return the rewards of each task's scored chains, over all visits to the task."""
    rewards: dict[tuple[str, str], list[float]] = {}
    for group in groups:
        scored = [member.reward for member in group.members if member.reward is not None]
        rewards.setdefault((group.task.source, group.task.id), []).extend(scored)
    return [scored for scored in rewards.values() if scored]


def _reward(rewards_by_task: list[list[float]]) -> Measured:
    means = [sum(rewards) / len(rewards) for rewards in rewards_by_task]
    return _named("eval/reward", mean(means), mean_interval(means))


def _solved(rewards_by_task: list[list[float]]) -> Measured:
    shares = [_count_solved(rewards) / len(rewards) for rewards in rewards_by_task]
    return _named("eval/solved", mean(shares), wilson_interval(sum(shares), len(shares)))


def _named(name: str, value: float | None, interval: Interval | None) -> Measured:
    return {
        name: value,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def _passes(rewards_by_task: list[list[float]]) -> dict[str, float]:
    most = max(map(len, rewards_by_task), default=0)
    passes = {}
    for k in _powers_of_two_and(most):
        enough = [rewards for rewards in rewards_by_task if len(rewards) >= k]
        chances = [pass_at_k(_count_solved(rewards), len(rewards), k) for rewards in enough]
        passes[f"eval/pass@{k}"] = sum(chances) / len(chances)
    return passes


def _powers_of_two_and(most: int) -> Iterator[int]:
    """Yield 1, 2, 4, … below a number, then the number: 1, 2, 4, 6 for 6."""
    k = 1
    while k < most:
        yield k
        k *= 2
    if most:
        yield most


def _count_solved(rewards: Sequence[float]) -> int:
    return sum(reward >= SOLVED for reward in rewards)
