"""The numbers of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentfly.observe.estimate import interval_text
from agentfly.observe.evaluation_metrics import Counting, evaluation_metrics
from agentfly.observe.report.examples import Example, choose_examples
from agentfly.observe.rollout_metrics import rollout_metrics
from agentfly.types import Group

NUMBER, SHARE = "{:.2f}", "{:.0%}"

ROWS = {
    "eval/reward": ("reward", NUMBER),
    "eval/solved": ("solved", SHARE),
    "tools/calls": ("tool calls per chain", NUMBER),
    "tools/invalid_share": ("invalid calls", SHARE),
    "tools/unknown_share": ("calls of unknown tools", SHARE),
    "turns/mean": ("turns per chain", NUMBER),
    "tokens/per_chain": ("tokens per chain", "{:.0f}"),
    "eval/time_limit_share": ("chains out of time", SHARE),
    "eval/failed_share": ("chains left out as failed", SHARE),
}
"""What is compared: the metric, what a person calls it, and how it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, for example `reward`, `0.05 [0.01, 0.09]`, `0.93 [0.88, 0.98]`."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A comparison of two evaluations of the same held-out tasks."""

    before: Mapping[str, float]
    """Metrics of the model as it was."""
    after: Mapping[str, float]
    seconds: float
    """How long the run took."""
    examples: tuple[Example, ...]

    @property
    def reward_before(self) -> float | None:
        """Held-out reward of the model as it was; None if no chain was scored."""
        return self.before.get("eval/reward")

    @property
    def reward_after(self) -> float | None:
        """Held-out reward after training."""
        return self.after.get("eval/reward")

    @property
    def num_tasks(self) -> int:
        """Held-out tasks that were scored after training."""
        return int(self.after["eval/tasks"])

    @property
    def rows(self) -> list[Row]:
        """The table."""
        return [
            Row(
                name=name,
                before=_text(metric, form, self.before),
                after=_text(metric, form, self.after),
            )
            for metric, (name, form) in ROWS.items()
        ]


def compare(
    before: Sequence[Group],
    after: Sequence[Group],
    *,
    seconds: float,
    num_examples: int,
    counting: Counting,
) -> Report:
    """Measure both, and choose examples."""
    return Report(
        before=rollout_metrics(before) | evaluation_metrics(before, counting),
        after=rollout_metrics(after) | evaluation_metrics(after, counting),
        seconds=seconds,
        examples=choose_examples(before, after, num_examples),
    )


def _text(metric: str, form: str, metrics: Mapping[str, float]) -> str:
    if metric not in metrics:
        return "-"
    text = form.format(metrics[metric])
    low, high = metrics.get(f"{metric}_low"), metrics.get(f"{metric}_high")
    if low is None or high is None:
        return text
    return f"{text} {interval_text(low, high, form)}"
