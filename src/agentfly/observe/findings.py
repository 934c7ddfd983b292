"""Findings: what keeps a run from learning, each one sentence with the way out.

runs/demo/findings.json
    {"v": 1, "kind": "findings", "findings": [
        {"kind": "no_calls", "step": 1, "source": "default",
         "sentence": "The model did not call a tool in any of 64 chains.", "way_out": "Show it …"}]}

A finding is reported once, at the first step where it is certain, and stays with the run: in its
log, in this file, and in the summary at its end. Equal rewards are no longer a finding once rewards
differ: harder or easier tasks may come later.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

from agentfly.errors import FormatError
from agentfly.observe.finding_rules import (
    Diagnosis,
    FindingKind,
    SourceHistory,
    diagnose_failures,
    diagnose_masked,
    diagnose_not_finite,
    diagnose_restart,
    diagnose_unseen_tools,
)
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.observe.whole_file import whole_file
from agentfly.types import Group, StepMetrics, Task
from agentfly.types.short_text import count

FORMAT_VERSION = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A diagnosis of one source of tasks, at the step where it was certain."""

    kind: FindingKind
    step: int
    source: str
    """Source of tasks that it is about."""
    sentence: str
    way_out: str

    def __str__(self) -> str:
        where = "" if self.source == "default" else f" (source {self.source!r})"
        return f"{self.sentence} {self.way_out}{where}"


def read_findings(path: Path) -> tuple[Finding, ...]:
    """Read a run's findings; none where there is no file."""
    try:
        content = json.loads(path.read_bytes())
        return tuple(
            Finding(**{**entry, "kind": FindingKind(entry["kind"])})
            for entry in content["findings"]
        )
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"{path} is damaged: {error}. Remove it: a resumed run finds again what is still true"
        ) from error


@dataclass(slots=True, kw_only=True)
class Findings:
    """Looks at every step's chains, reports what is certain, and keeps it in a file."""

    path: Path
    tasks: Sequence[Task]
    """All tasks of the run, to name the rows that lack a field."""
    with_tools: frozenset[str]
    """Names of the sources whose agents have tools."""
    algorithm: str
    """Name of the run's algorithm."""
    found: list[Finding] = field(default_factory=list)
    _history: dict[str, SourceHistory] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        path: Path,
        tasks: Sequence[Task],
        *,
        with_tools: frozenset[str],
        algorithm: str,
        step: int,
    ) -> "Findings":
        """Continue a run's file; what was found after `step`, which is repeated, is dropped."""
        kept = [finding for finding in read_findings(path) if finding.step <= step]
        return cls(path=path, tasks=tasks, with_tools=with_tools, algorithm=algorithm, found=kept)

    def take(self, step: int, groups: Sequence[Group], learned: StepMetrics) -> None:
        """Look at the chains of a step, and at what was learned from them."""
        self.take_failures(step, groups)
        self._report(step, "default", diagnose_not_finite(self.algorithm, learned))
        tried = learned.updates + round(learned.metrics.get("skipped_updates", 0.0))
        for source, some in _by_source(groups):
            history = self._history.setdefault(source, SourceHistory())
            history.take(some, updates=tried)
            if source in self.with_tools:
                self._report(step, source, history.diagnose_calls())
            if history.flat_steps == 0:
                self._withdraw(step, source, FindingKind.FLAT_REWARDS)
            self._report(step, source, history.diagnose_rewards())

    def take_masked(self, step: int, mask: str, chains: int) -> None:
        """Report that the mask has left no token of a step to train on."""
        self._report(step, "default", diagnose_masked(mask, chains))

    def take_failures(self, step: int, groups: Sequence[Group]) -> None:
        """Look for causes of failed chains, also in a step that is too broken to learn from."""
        for source, some in _by_source(groups):
            chains = [member for group in some for member in group.members]
            self._report(step, source, diagnose_failures(chains, self._tasks_of(source)))

    def take_end(self, step: int, records: Sequence[MetricsRecord]) -> None:
        """Report a run in which nothing was learned, by the metrics of all its steps."""
        if has_learned(records):
            return
        others = ", ".join(f"{finding.kind} of step {finding.step}" for finding in self.found)
        nothing_learned = Diagnosis(
            FindingKind.NOTHING_LEARNED,
            f"Nothing was learned: no update changed the weights in {count(step, 'step')}.",
            f"Other findings say why: {others}."
            if others
            else f"Look at the chains: agentfly show {self.path.parent}",
        )
        self._report(step, "default", nothing_learned)

    def take_unseen_tools(self, source: str, model: str, tools: Sequence[str]) -> None:
        """Report tools that the model can't call, before the first step."""
        if tools:
            self._report(0, source, diagnose_unseen_tools(model, tools))

    def take_restart(self, step: int, reason: str, *, restarts: int, limit: int) -> None:
        """Report that the learner was restarted, and the run continues after a checkpoint."""
        self.found = [old for old in self.found if old.kind != FindingKind.LEARNER_LOST]
        restart = diagnose_restart(step, reason, restarts=restarts, limit=limit)
        self._report(step, "default", restart)

    def _tasks_of(self, source: str) -> list[Task]:
        return [task for task in self.tasks if task.source == source]

    def _report(self, step: int, source: str, found: Diagnosis | None) -> None:
        """Keep a diagnosis as a finding, unless the source has one of its kind already."""
        if found is None or self._known(found.kind, source):
            return
        finding = Finding(
            kind=found.kind,
            step=step,
            source=source,
            sentence=found.sentence,
            way_out=found.way_out,
        )
        self.found.append(finding)
        _log.warning("step %d: %s", step, finding)
        self._write()

    def _known(self, kind: FindingKind, source: str) -> list[Finding]:
        return [old for old in self.found if (old.kind, old.source) == (kind, source)]

    def _withdraw(self, step: int, source: str, kind: FindingKind) -> None:
        """Drop a finding that is no longer true, and log that."""
        for old in self._known(kind, source):
            self.found.remove(old)
            _log.warning("step %d: %s of step %d is no longer true", step, old.kind, old.step)
            self._write()

    def _write(self) -> None:
        content = [asdict(one) for one in self.found]
        with whole_file(self.path) as file:
            data = {"v": FORMAT_VERSION, "kind": "findings", "findings": content}
            file.write((json.dumps(data, indent=1) + "\n").encode())


def has_learned(records: Sequence[MetricsRecord]) -> bool:
    """Return whether any update has changed the weights, by the metrics of a run's steps."""
    updates = [record.metrics.get("train/updates", 0.0) for record in records if record.step > 0]
    return any(updates) or not updates


def _by_source(groups: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    def source(group: Group) -> str:
        return group.task.source

    for name, some in groupby(sorted(groups, key=source), key=source):
        yield name, list(some)
