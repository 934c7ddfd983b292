"""An evaluation as rows of a table: all tasks, each source, and tasks that share a field's value.

    all               reward 0.61 [0.52, 0.70]   solved 58% [49%, 67%]   pass@4 80%   pass^4 31%
    level = easy      …
    level = hard      …

Every interval is over tasks, because chains of one task succeed and fail together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentfly.config.evaluation_settings import PriceSettings
from agentfly.observe.bootstrap import reward_interval, share_interval
from agentfly.observe.estimate import (
    Interval,
    mean,
    pass_at_k,
    pass_hat_k,
)
from agentfly.observe.evaluation_metrics import (
    Counting,
    Outcome,
    count_solved,
    outcomes_by_task,
    powers_of_two_and,
)
from agentfly.observe.rollout_metrics import chain_seconds
from agentfly.observe.summary import ended_unscored, ratio, summarize
from agentfly.types import Group, ScoreRange, Task, TokenStream, Trajectory
from agentfly.types.short_text import shorten

MAX_VALUES = 50
"""Values of a field that get a row of their own; the rest is one row together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its 95% interval, where there is one."""

    value: float
    interval: Interval | None

    def to_json(self) -> dict[str, float | None]:
        """Return it as JSON values."""
        low, high = (self.interval.low, self.interval.high) if self.interval else (None, None)
        return {"value": self.value, "low": low, "high": high}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """Measurements of some tasks. What was not measured is None, not 0."""

    title: str
    tasks: int
    chains: int
    reward: Estimate | None
    solved: Estimate | None
    pass_at: Mapping[int, Estimate]
    """pass@k by k: the chance that at least one of k attempts solves a task."""
    pass_hat: Mapping[int, Estimate]
    """pass^k by k: the chance that all of k attempts do."""
    prompt_tokens: float | None
    """Per chain, over all its turns; each turn's prompt counts whole, as servers bill it."""
    sampled_tokens: float | None
    turns: float | None
    seconds: float | None
    """From a chain's admission to its end."""
    cost: float | None
    """Per chain, where prices are given."""
    failed: int
    """Chains that failed for a reason outside the model, and are left out."""
    unscored: int = 0
    """Chains that ended well but that neither a step nor a reward scored, and are left out, too."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failed chains by cause."""
    stops: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "title": self.title,
            "tasks": self.tasks,
            "chains": self.chains,
            "reward": self.reward and self.reward.to_json(),
            "solved": self.solved and self.solved.to_json(),
            "pass@k": {str(k): one.to_json() for k, one in self.pass_at.items()},
            "pass^k": {str(k): one.to_json() for k, one in self.pass_hat.items()},
            "prompt_tokens": self.prompt_tokens,
            "sampled_tokens": self.sampled_tokens,
            "turns": self.turns,
            "seconds": self.seconds,
            "cost": self.cost,
            "failed": self.failed,
            "unscored": self.unscored,
            "failures": dict(self.failures),
            "stops": dict(self.stops),
        }


def evaluation_rows(
    groups: Sequence[Group],
    counting: Counting,
    *,
    by: Sequence[str] = (),
    prices: PriceSettings | None = None,
) -> list[EvaluationRow]:
    """Return the row of all groups, one for each of several sources, and those of the fields.

    Args:
        groups: All groups of one evaluation.
        counting: Ranges of rewards, and the reward of chains that did not finish.
        by: Fields of tasks, each of whose values gets a row.
        prices: For the column of costs.
    """

    def row(title: str, some: Sequence[Group]) -> EvaluationRow:
        return _row(title, some, counting, prices)

    sources = sorted({group.task.source for group in groups})
    rows = [row("all", groups)]
    for source in sources if len(sources) > 1 else ():
        rows.append(row(source, [group for group in groups if group.task.source == source]))
    for name in by:
        rows += [row(title, some) for title, some in _by_field(name, groups)]
    return rows


def _by_field(name: str, groups: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    """Yield the groups of each value of a field, those of the most frequent value first."""
    parts: dict[str, list[Group]] = {}
    for group in groups:
        parts.setdefault(field_value(group.task, name), []).append(group)
    values = sorted(parts, key=lambda value: (-len(parts[value]), value))
    if len(values) <= MAX_VALUES:
        values.sort()
    for value in values[:MAX_VALUES]:
        yield f"{name} = {value}", parts[value]
    if rest := [group for value in values[MAX_VALUES:] for group in parts[value]]:
        yield f"{name}: {len(values) - MAX_VALUES} other values", rest


def field_value(task: Task, name: str) -> str:
    """Return the value of a task's field as a short text; `-` where it has none."""
    value = task.fields.get(name)
    return "-" if value is None else shorten(str(value), 40)


def _row(
    title: str, groups: Sequence[Group], counting: Counting, prices: PriceSettings | None
) -> EvaluationRow:
    chains = [member for group in groups for member in group.members]
    outcomes = outcomes_by_task(counting, groups)
    unscored = sum(map(ended_unscored, chains))
    summary = summarize(chains)
    prompt, sampled = _tokens(chains)
    per_chain = None if prompt is None or sampled is None else (prompt, sampled)
    return EvaluationRow(
        title=title,
        tasks=len(outcomes),
        chains=len(chains),
        reward=_reward(outcomes, counting.range_of({group.task.source for group in groups})),
        solved=_share([count_solved(task) / len(task) for task in outcomes]),
        pass_at=_passes(outcomes, pass_at_k),
        pass_hat=_passes(outcomes, pass_hat_k),
        prompt_tokens=prompt,
        sampled_tokens=sampled,
        turns=ratio(summary.turns, len(chains)),
        seconds=mean([chain_seconds(chain) for chain in chains]),
        cost=prices.cost(*per_chain) if prices and per_chain else None,
        failed=len(chains) - sum(map(len, outcomes)) - unscored,
        unscored=unscored,
        failures=summary.failures,
        stops={str(stop): count for stop, count in summary.stops.items()},
    )


def _reward(outcomes: Sequence[Sequence[Outcome]], range: ScoreRange) -> Estimate | None:
    means = [sum(one.reward for one in task) / len(task) for task in outcomes]
    rewards = [one.reward for task in outcomes for one in task]
    value = mean(means)
    if value is None:
        return None
    return Estimate(value=value, interval=reward_interval(means, range, rewards))


def _share(shares: Sequence[float]) -> Estimate | None:
    value = mean(shares)
    return None if value is None else Estimate(value=value, interval=share_interval(shares))


def _passes(
    outcomes: Sequence[Sequence[Outcome]], chance: Callable[[int, int, int], float]
) -> dict[int, Estimate]:
    """Estimate the chance for k = 1, 2, 4, …, over the tasks with at least k counted chains."""
    passes: dict[int, Estimate] = {}
    for k in powers_of_two_and(max(map(len, outcomes), default=0)):
        enough = [task for task in outcomes if len(task) >= k]
        found = _share([chance(count_solved(task), len(task), k) for task in enough])
        if found is not None:
            passes[k] = found
    return passes


def _tokens(chains: Sequence[Trajectory]) -> tuple[float | None, float | None]:
    """Return prompt and sampled tokens per chain; None for servers that give no token ids."""
    if not chains or any(turn.completion is None for chain in chains for turn in chain.turns):
        return None, None
    streams = [stream for chain in chains for stream in chain.streams]
    sampled = sum(sum(stream.sampled) for stream in streams)
    return sum(map(_prompt_tokens, streams)) / len(chains), sampled / len(chains)


def _prompt_tokens(stream: TokenStream) -> int:
    """Count the tokens of all prompts of a stream: those of turn 2 include all of turn 1."""
    length = total = 0
    for turn in stream.turns:
        length += len(turn.context_ids)
        total += length
        length += len(turn.completion.token_ids) if turn.completion else 0
    return total
