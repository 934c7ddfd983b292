"""Chains of a run that its report shows: held-out tasks before and after, best, worst and failed.

Chains are read one at a time, and few are kept.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from agentfly.errors import FormatError
from agentfly.observe.evaluation_metrics import evaluation_metrics
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.types import ToolStatus, Trajectory, collect_groups

NUM_EXAMPLES = 3
"""Chains shown of each kind."""
CANDIDATES = 64
"""Held-out tasks of the last evaluation that are looked up in the first one for examples."""

T = TypeVar("T")
U = TypeVar("U")
TaskKey = tuple[str, str]
"""Source and id of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Metrics of the held-out chains of one step's weights."""

    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One task with a chain from before and one from after."""

    before: Trajectory
    after: Trajectory


def read_or_note(read: Callable[[], T], instead: U, notes: list[str]) -> T | U:
    """Return what can be read; add a note and return `instead` for a damaged file."""
    try:
        return read()
    except FormatError as error:
        notes.append(str(error))
        return instead


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The first and the last evaluation, with tasks that both have attempted."""

    before: Evaluation | None = None
    after: Evaluation | None = None
    examples: tuple[Example, ...] = ()


def read_held_out(run: RecordedRun, records: list[MetricsRecord], notes: list[str]) -> HeldOut:
    """Read the first and the last evaluation; a damaged file is noted."""
    if not run.evaluations:
        return HeldOut()
    first, last = run.evaluations[0], run.evaluations[-1]
    now = read_or_note(lambda: _Pass(run.evaluation(last)), None, notes)
    if now is None:
        return HeldOut()
    after = Evaluation(step=last, metrics=now.metrics | _recorded(run, last, records))
    if first == last:
        return HeldOut(after=after)
    then = read_or_note(lambda: _Pass(run.evaluation(first), only=now.first), None, notes)
    if then is None:
        return HeldOut(after=after)
    pairs = ((then.first.get(task), chain) for task, chain in now.first.items())
    examples = [Example(before=old, after=new) for old, new in pairs if old is not None]
    return HeldOut(
        before=Evaluation(step=first, metrics=then.metrics | _recorded(run, first, records)),
        after=after,
        examples=tuple(examples[:NUM_EXAMPLES]),
    )


def _recorded(run: RecordedRun, step: int, records: list[MetricsRecord]) -> dict[str, float]:
    """Return the metrics as the run logged them; if it was killed before that, measure them."""
    logged = [dict(r.metrics) for r in records if r.step == step and "eval/tasks" in r.metrics]
    return logged[-1] if logged else evaluation_metrics(collect_groups(run.evaluation(step)))


class _Pass:
    """One pass over held-out chains: their counts, and the first chain of some tasks."""

    def __init__(
        self, chains: Iterable[Trajectory], only: Container[TaskKey] | None = None
    ) -> None:
        self.first: dict[TaskKey, Trajectory] = {}
        self._chains = self._turns = self._tokens = self._calls = 0
        self._invalid = self._unknown = 0
        for chain in chains:
            self._count(chain)
            key = (chain.task.source, chain.task.id)
            wanted = len(self.first) < CANDIDATES if only is None else key in only
            if wanted and key not in self.first:
                self.first[key] = chain

    def _count(self, chain: Trajectory) -> None:
        turns = chain.turns
        statuses = [result.status for turn in turns for result in turn.results]
        self._chains += 1
        self._turns += len(turns)
        self._tokens += sum(len(turn.completion.token_ids) for turn in turns if turn.completion)
        self._calls += len(statuses)
        self._invalid += sum(status.invalid for status in statuses)
        self._unknown += statuses.count(ToolStatus.UNKNOWN_TOOL)

    @property
    def metrics(self) -> dict[str, float]:
        """Means over chains, and shares of calls, by the names of a step's metrics."""
        if not self._chains:
            return {}
        means = {
            "tools/calls": self._calls / self._chains,
            "turns/mean": self._turns / self._chains,
            "tokens/per_chain": self._tokens / self._chains,
        }
        if not self._calls:
            return means
        return means | {
            "tools/invalid_share": self._invalid / self._calls,
            "tools/unknown_share": self._unknown / self._calls,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """The best, the worst and some failed chains of a step."""

    best: tuple[Trajectory, ...] = ()
    worst: tuple[Trajectory, ...] = ()
    """Chains with a lower reward than the best ones."""
    failed: tuple[Trajectory, ...] = ()


def read_extremes(run: RecordedRun, records: list[MetricsRecord], notes: list[str]) -> Extremes:
    """Read the extremes of the last step that was logged; a damaged file is noted."""
    logged = {record.step for record in records}
    steps = [step for step in run.steps if step in logged] or run.steps
    if not steps:
        return Extremes()
    return read_or_note(lambda: _extremes(run.chains(steps[-1])), Extremes(), notes)


def _extremes(chains: Iterable[Trajectory]) -> Extremes:
    best, worst = _Ranking(), _Ranking()
    failed: list[Trajectory] = []
    for chain in chains:
        if chain.reward is not None:
            best.take(chain.reward, chain)
            worst.take(-chain.reward, chain)
        elif chain.error is not None and len(failed) < NUM_EXAMPLES:
            failed.append(chain)
    low = min((chain.reward or 0.0 for chain in best.chains), default=0.0)
    bad = tuple(chain for chain in worst.chains if (chain.reward or 0.0) < low)
    return Extremes(best=best.chains, worst=bad, failed=tuple(failed))


class _Ranking:
    """The few chains with the highest values, one of each task; of equals, the first."""

    def __init__(self) -> None:
        self._kept: dict[TaskKey, tuple[float, Trajectory]] = {}

    def take(self, value: float, chain: Trajectory) -> None:
        key = (chain.task.source, chain.task.id)
        if key in self._kept and self._kept[key][0] >= value:
            return
        self._kept[key] = (value, chain)
        if len(self._kept) > NUM_EXAMPLES:
            # The last one of the lowest.
            del self._kept[min(reversed(self._kept), key=lambda task: self._kept[task][0])]

    @property
    def chains(self) -> tuple[Trajectory, ...]:
        """The chains, the highest first."""
        ranked = sorted(self._kept.values(), key=lambda kept: -kept[0])
        return tuple(chain for _, chain in ranked)
