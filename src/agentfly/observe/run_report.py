"""The report of a run, from its folder alone: what it reached, how, and what its chains look like.

runs/sums/
    report.html     curve, held-out tasks before and after, example chains, time, settings
    report.json     {"reward_before": 0.05, "reward_after": 0.93, "seconds": 281.4, …}
    reward.png, reward.html
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from agentfly.observe.estimate import interval_text
from agentfly.observe.findings import Finding, read_findings
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.report_chains import (
    Evaluation,
    Example,
    read_extremes,
    read_held_out,
    read_or_note,
)
from agentfly.observe.run_list import reached_target
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.types import Trajectory

MAX_WARNINGS = 10
"""Maximum number of log messages shown."""
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
    "eval/failed_share": ("chains left out", SHARE),
}
"""Rows of the comparison: the metric, its label and its format."""

STAGES = ("sampling", "training", "publishing", "evaluating", "saving")
"""Stages of a run, each with a metric `time/…`."""
WAITS = {
    "time/generation": "generating",
    "time/tools": "tools",
    "time/environments": "environments",
    "time/rewards": "rewards",
    "time/queue": "queues",
}
"""What an average chain waits for: the metric and its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, for example `reward`, `0.05 [0.01, 0.09]`, `0.93 [0.88, 0.98]`."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Time of one stage, and its share of all."""

    name: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Contents of a report; what the folder does not hold is None or empty, and in `notes`."""

    run: RecordedRun
    before: Evaluation | None
    """The first evaluation, if there were two."""
    after: Evaluation | None
    """The last evaluation."""
    examples: tuple[Example, ...] = ()
    """Held-out tasks before and after, not chosen by their rewards."""
    best: tuple[Trajectory, ...] = ()
    """Chains of the last step with the highest rewards."""
    worst: tuple[Trajectory, ...] = ()
    failed: tuple[Trajectory, ...] = ()
    """Chains of the last step that failed for a reason outside the model."""
    stages: tuple[Stage, ...] = ()
    waits: tuple[Stage, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What kept the run from learning, as the run itself reported."""
    warnings: tuple[str, ...] = ()
    """The last different warnings of AgentFly in the log."""
    records: tuple[MetricsRecord, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing, and why."""

    @property
    def seconds(self) -> float:
        """Duration of all steps, evaluations included."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def reward_before(self) -> float | None:
        """Held-out reward of the model as it was; None without two evaluations."""
        return self.before.metrics.get("eval/reward") if self.before else None

    @property
    def reward_after(self) -> float | None:
        """Held-out reward after training; None without an evaluation."""
        return self.after.metrics.get("eval/reward") if self.after else None

    @property
    def num_tasks(self) -> int:
        """Held-out tasks that were scored in the last evaluation."""
        return int(self.after.metrics.get("eval/tasks", 0)) if self.after else 0

    @property
    def rows(self) -> list[Row]:
        """The table of held-out metrics; empty without an evaluation."""
        if self.after is None:
            return []
        then = self.before.metrics if self.before else {}
        return [
            Row(name=name, before=_text(metric, form, then), after=_text(metric, form, now))
            for metric, (name, form) in ROWS.items()
            if metric in (now := self.after.metrics) or metric in then
        ]

    @property
    def progress(self) -> str:
        """Number of steps for people: `12 of 60 steps`."""
        planned = self.run.planned_steps
        steps = max((record.step for record in self.records), default=0)
        return f"{steps} steps" if planned is None else f"{steps} of {planned} steps"

    @property
    def verdict(self) -> str | None:
        """Comparison of the two evaluations in a sentence; None without two."""
        if self.before is None or self.after is None:
            return None
        if self.reward_before is None or self.reward_after is None:
            return None
        then, now = self.before.metrics, self.after.metrics
        change = f"from {self.reward_before:.2f} to {self.reward_after:.2f}"
        known = "eval/reward_low" in then and "eval/reward_low" in now
        if known and now["eval/reward_low"] > then["eval/reward_high"]:
            return f"The held-out reward rose {change}."
        if known and now["eval/reward_high"] < then["eval/reward_low"]:
            return f"The held-out reward fell {change}."
        return (
            f"The held-out reward went {change}. The intervals overlap: it may be chance. More "
            "held-out tasks make them narrower."
        )


def _text(metric: str, form: str, metrics: Mapping[str, float]) -> str:
    if metric not in metrics:
        return "-"
    text = form.format(metrics[metric])
    low, high = metrics.get(f"{metric}_low"), metrics.get(f"{metric}_high")
    if low is None or high is None:
        return text
    return f"{text} {interval_text(low, high, form)}"


def read_report(run: RecordedRun) -> Report:
    """Read everything that a run's folder holds, chains one at a time."""
    notes: list[str] = []
    none: list[MetricsRecord] = []
    records = read_or_note(lambda: run.records, none, notes)
    held_out = read_held_out(run, records, notes)
    extremes = read_extremes(run, records, notes)
    found = read_or_note(lambda: read_findings(run.path / "findings.json"), (), notes)
    return Report(
        run=run,
        before=held_out.before,
        after=held_out.after,
        examples=held_out.examples,
        best=extremes.best,
        worst=extremes.worst,
        failed=extremes.failed,
        stages=tuple(_stages(records)),
        waits=tuple(_waits(records)),
        findings=found,
        warnings=tuple(_warnings(run, found)),
        notes=(*_missing(run, records), *notes),
        records=tuple(records),
    )


def _missing(run: RecordedRun, records: list[MetricsRecord]) -> Iterator[str]:
    rewards = [r.metrics["reward/mean"] for r in records if "reward/mean" in r.metrics]
    if not rewards:
        yield "No step was finished, so there is no curve."
    step = max((record.step for record in records), default=0)
    if run.planned_steps is not None and step < run.planned_steps:
        reached = reached_target(run, rewards)
        why = "reached its target reward" if reached else "was stopped, or is still running"
        yield f"The run took {step} of {run.planned_steps} steps: it {why}."
    if not run.evaluations:
        yield (
            "No held-out task was evaluated, so nothing can be said about tasks that were not "
            "trained on. Give the source `eval_tasks`."
        )
    elif len(run.evaluations) == 1:
        yield f"There is one evaluation, after step {run.evaluations[0]}, and none to compare with."
    if not run.config:
        yield "config.toml is lost, so the settings are not known."


def _stages(records: list[MetricsRecord]) -> list[Stage]:
    """Return the stages that took time, over the whole run."""
    seconds = {
        stage: sum(record.metrics.get(f"time/{stage}", 0.0) for record in records)
        for stage in STAGES
    }
    if len(records) > 1 and "eval/tasks" in records[-1].metrics:
        # The time of a stage is logged with the next step, and after the last one there is none.
        seconds["evaluating"] += max(0.0, records[-1].time - records[-2].time)
    return _shares(seconds)


def _waits(records: list[MetricsRecord]) -> list[Stage]:
    """Return what an average chain of the run waited for."""
    seconds = {
        label: fmean(found)
        for metric, label in WAITS.items()
        if (found := [r.metrics[metric] for r in records if metric in r.metrics])
    }
    return _shares(seconds)


def _shares(seconds: Mapping[str, float]) -> list[Stage]:
    total = sum(seconds.values())
    return [
        Stage(name=name, seconds=spent, share=spent / total)
        for name, spent in seconds.items()
        if spent > 0
    ]


def _warnings(run: RecordedRun, found: Iterable[Finding]) -> list[str]:
    """Return the last warnings in the log, without those that are findings."""
    log = run.path / "log.txt"
    if not log.exists():
        return []
    kept: dict[str, None] = {}
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            _, mark, message = line.partition(" WARNING agentfly.")
            if mark and not any(finding.sentence in message for finding in found):
                kept[message.partition(": ")[2].strip()] = None
                if len(kept) > MAX_WARNINGS:
                    del kept[next(iter(kept))]
    return list(kept)
