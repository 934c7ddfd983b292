"""Metrics of a step, from its finished groups. `metrics` documents each name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, pstdev

from agentfly.observe.metrics import SOURCE
from agentfly.observe.summary import Summary, ratio, summarize
from agentfly.types import Group, SpanKind, StopReason, ToolStatus, Trajectory, Turn

Measured = dict[str, float | None]
"""Metrics by name; None where there was nothing to measure, which is left out."""

WAITS = {
    SpanKind.GENERATE: "time/generation",
    SpanKind.TOOL: "time/tools",
    SpanKind.ENVIRONMENT: "time/environments",
    SpanKind.REWARD: "time/rewards",
    SpanKind.QUEUE: "time/queue",
}


def rollout_metrics(
    groups: Sequence[Group], *, version: int | None = None, seconds: float | None = None
) -> dict[str, float]:
    """Return the metrics of a step's groups, over all of them and for each named source.

    Args:
        groups: All groups of the step, failed chains included.
        version: Current version of the weights, to measure staleness.
        seconds: Wall-clock time of sampling.
    """

    def measure(some: Sequence[Group]) -> Measured:
        return _measure(some) | (_staleness(some, version) if version is not None else {})

    metrics = by_source(groups, measure)
    if seconds:
        metrics["time/sampling"] = seconds
        metrics["tokens/per_second"] = metrics["tokens/sampled"] / seconds
    return metrics


def by_source(
    groups: Sequence[Group], measure: Callable[[Sequence[Group]], Measured]
) -> dict[str, float]:
    """Measure all groups, then those of each source, unless the only source has no name."""
    measured = measure(groups)
    sources = sorted({group.task.source for group in groups})
    for source in [] if sources == ["default"] else sources:
        part = measure([group for group in groups if group.task.source == source])
        measured |= {f"{SOURCE}{source}/{name}": value for name, value in part.items()}
    return {name: value for name, value in measured.items() if value is not None}


def _measure(groups: Sequence[Group]) -> Measured:
    chains = [member for group in groups for member in group.members]
    summary = summarize(chains)
    return {
        **_rewards(groups, chains, summary),
        **_chains(groups, chains, summary),
        **_tools(chains, summary),
        **_lengths(chains, summary),
        **{f"stop/{reason}": ratio(n, len(chains)) for reason, n in summary.stops.items()},
        **{f"failures/{cause}": float(count) for cause, count in summary.failures.items()},
        **{WAITS[kind]: ratio(total, len(chains)) for kind, total in summary.seconds.items()},
    }


def _rewards(groups: Sequence[Group], chains: Sequence[Trajectory], summary: Summary) -> Measured:
    rewards = [chain.reward for chain in chains if chain.reward is not None]
    return {
        "reward/mean": summary.mean_reward,
        "reward/std": pstdev(rewards) if rewards else None,
        "reward/min": min(rewards, default=None),
        "reward/max": max(rewards, default=None),
        "reward/solved": summary.solved_share,
        "reward/flat_groups": ratio(sum(not group.has_spread for group in groups), len(groups)),
        **{f"reward/part/{name}": fmean(values) for name, values in _parts(chains).items()},
    }


def _parts(chains: Sequence[Trajectory]) -> Mapping[str, list[float]]:
    parts: dict[str, list[float]] = {}
    for chain in chains:
        for name, value in (chain.score.parts if chain.score else {}).items():
            parts.setdefault(name, []).append(value)
    return parts


def _chains(groups: Sequence[Group], chains: Sequence[Trajectory], summary: Summary) -> Measured:
    failed = sum(chain.stop.verdict.failure for chain in chains)
    late = sum(chain.stop is StopReason.TIME_LIMIT for chain in chains)
    return {
        "chains/count": float(summary.chains),
        "chains/groups": float(len(groups)),
        "chains/scored": float(summary.scored),
        "chains/failed": float(failed),
        "chains/failed_share": ratio(failed, len(chains)),
        "chains/time_limit_share": ratio(late, len(chains)),
        "chains/retried": float(sum(chain.attempt > 0 for chain in chains)),
        **_surplus(chains),
    }


def _surplus(chains: Sequence[Trajectory]) -> Measured:
    """Measure whether chains that were kept are shorter than those that were begun."""
    kept = [chain for chain in chains if chain.stop is not StopReason.SURPLUS]
    if len(kept) == len(chains):
        return {}
    begun = fmean(map(chain_seconds, chains))
    return {
        "chains/surplus": float(len(chains) - len(kept)),
        "chains/kept_length_ratio": ratio(fmean(map(chain_seconds, kept)), begun) if kept else None,
    }


def chain_seconds(chain: Trajectory) -> float:
    """Return the seconds from a chain's admission to its end."""
    admitted = chain.spans[0].end if chain.spans else 0.0
    return max((span.end for span in chain.spans), default=0.0) - admitted


def _tools(chains: Sequence[Trajectory], summary: Summary) -> Measured:
    statuses = [result.status for turn in _turns(chains) for result in turn.results]
    calls = len(statuses)
    return {
        "tools/calls": ratio(calls, len(chains)),
        "tools/invalid_share": summary.invalid_share,
        "tools/unknown_share": summary.unknown_share,
        "tools/error_share": ratio(statuses.count(ToolStatus.ERROR), calls),
        "tools/timeout_share": ratio(statuses.count(ToolStatus.TIMEOUT), calls),
        "tools/failed_share": ratio(calls - statuses.count(ToolStatus.OK), calls),
        "tools/repaired_share": ratio(summary.repaired, calls),
        "actions/invalid_share": summary.invalid_actions_share,
    }


def _lengths(chains: Sequence[Trajectory], summary: Summary) -> Measured:
    streams = (len(stream.token_ids) for chain in chains for stream in chain.streams)
    return {
        "turns/mean": ratio(summary.turns, len(chains)),
        "turns/max": float(max((len(chain.turns) for chain in chains), default=0)),
        "tokens/sampled": float(summary.sampled_tokens),
        "tokens/per_chain": ratio(summary.sampled_tokens, len(chains)),
        "tokens/per_turn": ratio(summary.sampled_tokens, summary.turns),
        "tokens/longest": float(max(streams, default=0)),
    }


def _staleness(groups: Sequence[Group], version: int) -> Measured:
    chains = [member for group in groups for member in group.members]
    runs = [run for turn in _turns(chains) if turn.completion for run in turn.completion.versions]
    behind = sum((version - sampled) * count for sampled, count in runs)
    return {
        "staleness/mean": ratio(behind, sum(count for _, count in runs)),
        "staleness/max": float(version - min(runs)[0]) if runs else None,
    }


def _turns(chains: Sequence[Trajectory]) -> Iterator[Turn]:
    for chain in chains:
        yield from chain.turns
