"""Metrics of held-out tasks. `metrics` documents each name.

Every chain counts, except those that failed for a reason outside the model or have no score, whose
share is reported next to the number:

    ended by itself, or by a limit on turns, tokens, calls, context    its own reward
    ran out of time, or had no space for a first token                 not solved, a low reward
    environment, engine, lease, reward or the agent's code failed      left out: eval/failed_share
    neither a step nor a reward function gave it a reward              left out: eval/failed_share
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from agentfly.observe.estimate import (
    Interval,
    mean,
    mean_interval,
    pass_at_k,
    share_interval,
)
from agentfly.observe.rollout_metrics import Measured, by_source
from agentfly.observe.summary import is_solved, ratio
from agentfly.types import ANY_SCORE, Group, ScoreRange, StopReason, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """Ranges of rewards, and the reward of chains that did not finish."""

    ranges: Mapping[str, ScoreRange] = field(default_factory=dict)
    """Declared range of the reward of each task source; a missing source declares none."""
    time_limit_reward: float | None = None
    """Reward of a chain that ran out of time; None for the declared minimum, or else 0."""

    def unfinished(self, source: str) -> float:
        """Return the reward of a chain that ran out of time, or had no space for a first token."""
        if self.time_limit_reward is not None:
            return self.time_limit_reward
        low = self.ranges.get(source, ANY_SCORE).low
        return low if low > ANY_SCORE.low else 0.0

    def range_of(self, sources: set[str]) -> ScoreRange:
        """Return the range of the rewards of some sources."""
        given = self.time_limit_reward
        ranges = [self.ranges.get(source, ANY_SCORE) for source in sorted(sources)]
        also = [] if given is None else [ScoreRange(given, given)]
        return ranges[0].around(*ranges[1:], *also) if ranges else ANY_SCORE


_PLAIN = Counting()


def evaluation_metrics(groups: Sequence[Group], counting: Counting = _PLAIN) -> dict[str, float]:
    """Return the metrics of held-out groups, over all of them and for each named source."""
    return by_source(groups, partial(_measure, counting))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Reward of a chain that counts, and whether it solved its task."""

    reward: float
    solved: bool


def _measure(counting: Counting, groups: Sequence[Group]) -> Measured:
    chains = [member for group in groups for member in group.members]
    late = sum(chain.stop is StopReason.TIME_LIMIT for chain in chains)
    outcomes = outcomes_by_task(counting, groups)
    counted = sum(map(len, outcomes))
    sources = {group.task.source for group in groups}
    return {
        **_reward(outcomes, counting.range_of(sources)),
        **_solved(outcomes),
        **_passes(outcomes),
        "eval/tasks": float(len(outcomes)),
        "eval/chains": float(len(chains)),
        "eval/failed_share": ratio(len(chains) - counted, len(chains)),
        "eval/time_limit_share": ratio(late, len(chains)),
    }


def outcomes_by_task(counting: Counting, groups: Sequence[Group]) -> list[list[Outcome]]:
    """Return the outcomes of each task's chains, over all visits to the task."""
    return list(outcomes_by_key(counting, groups).values())


def outcomes_by_key(
    counting: Counting, groups: Sequence[Group]
) -> dict[tuple[str, str, str], list[Outcome]]:
    """Return the outcomes by source, id and prompt of their task; a task without any is absent."""
    outcomes: dict[tuple[str, str, str], list[Outcome]] = {}
    for group in groups:
        found = [_outcome(counting, member) for member in group.members]
        counted = [outcome for outcome in found if outcome is not None]
        prompt = "\n".join(message.content for message in group.task.messages)
        outcomes.setdefault((group.task.source, group.task.id, prompt), []).extend(counted)
    return {key: counted for key, counted in outcomes.items() if counted}


def _outcome(counting: Counting, chain: Trajectory) -> Outcome | None:
    """Return a chain's outcome; None if it failed outside the model, or nothing scored it."""
    if chain.reward is not None:
        return Outcome(reward=chain.reward, solved=is_solved(chain))
    without_turns = chain.stop.verdict.scored and not chain.turns
    if without_turns or chain.stop is StopReason.TIME_LIMIT:
        return Outcome(reward=counting.unfinished(chain.task.source), solved=False)
    return None


def _reward(outcomes_by_task: list[list[Outcome]], range: ScoreRange) -> Measured:
    means = [sum(one.reward for one in task) / len(task) for task in outcomes_by_task]
    rewards = [one.reward for task in outcomes_by_task for one in task]
    return _named("eval/reward", mean(means), mean_interval(means, range, rewards=rewards))


def _solved(outcomes_by_task: list[list[Outcome]]) -> Measured:
    shares = [count_solved(task) / len(task) for task in outcomes_by_task]
    return _named("eval/solved", mean(shares), share_interval(shares))


def _named(name: str, value: float | None, interval: Interval | None) -> Measured:
    return {
        name: value,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def _passes(outcomes_by_task: list[list[Outcome]]) -> dict[str, float]:
    most = max(map(len, outcomes_by_task), default=0)
    passes = {}
    for k in powers_of_two_and(most):
        enough = [task for task in outcomes_by_task if len(task) >= k]
        chances = [pass_at_k(count_solved(task), len(task), k) for task in enough]
        passes[f"eval/pass@{k}"] = sum(chances) / len(chances)
    return passes


def powers_of_two_and(most: int) -> Iterator[int]:
    """Yield 1, 2, 4, … below a number, then the number: 1, 2, 4, 6 for 6."""
    k = 1
    while k < most:
        yield k
        k *= 2
    if most:
        yield most


def count_solved(outcomes: Sequence[Outcome]) -> int:
    """Return the number of solved chains."""
    return sum(outcome.solved for outcome in outcomes)
