"""Findings: what keeps a run from learning, each one sentence with the way out.

runs/demo/findings.json
    {"v": 1, "kind": "findings", "findings": [
        {"kind": "no_calls", "step": 1, "source": "default",
         "sentence": "No chain of 64 called a tool.", "way_out": "Show the model …"}]}

A finding is reported once, at the first step where it is certain, and stays with the run: in its
log, in this file, and in the summary at its end. Equal rewards are no longer a finding once rewards
differ: harder or easier tasks may come later.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import groupby
from pathlib import Path

from agentfly.errors import FormatError
from agentfly.observe.summary import summarize
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.observe.whole_file import whole_file
from agentfly.types import Group, StepMetrics, StopReason, Task, ToolResult, ToolStatus, Trajectory

FORMAT_VERSION = 1
FLAT_STEPS = 2
"""Steps in a row without any difference in rewards after which it is reported."""
FLAT_CHAINS = 32
"""Chains without any difference in rewards after which it is reported, if that is sooner."""
MIN_CALLS = 8
"""Calls without a success that make it certain that a tool, or the model's format, is broken."""
MIN_CHAINS = 16
"""Chains without a call that make it certain that the model does not call its tools."""
MIN_SOLVED = 0.5
"""Share of solved chains from which on it is no trouble that none called a tool."""
SHOWN = 5
"""Rows that are named."""

_log = logging.getLogger(__name__)


class FindingKind(StrEnum):
    """Kind of trouble."""

    NO_CALLS = "no_calls"
    """The model calls no tool."""
    INVALID_CALLS = "invalid_calls"
    """All calls are malformed, of unknown tools, or have wrong arguments."""
    TOOL_FAILS = "tool_fails"
    """A tool raises or times out in every call."""
    FLAT_REWARDS = "flat_rewards"
    """Rewards do not differ, so that nothing can be learned by comparing chains."""
    MISSING_FIELD = "missing_field"
    """Rows lack a field that the reward reads."""
    FAILED_CHAINS = "failed_chains"
    """Chains fail, for a cause other than a missing field."""
    MASKED_OUT = "masked_out"
    """The mask leaves out every token that was sampled."""
    UNSEEN_TOOLS = "unseen_tools"
    """A model without general abilities is given tools that it was not trained with."""
    NOT_FINITE = "not_finite"
    """Updates were left out, because an advantage, a loss or a gradient was NaN or infinite."""
    NOTHING_LEARNED = "nothing_learned"
    """No update changed the weights in the whole run."""
    LEARNER_LOST = "learner_lost"
    """The learner lost one of its processes, and was started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found, and what to do about it."""

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
            f"{path} is damaged: {error}. Remove it: a resumed run finds again what still holds"
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
    _seen: dict[str, "_Seen"] = field(default_factory=dict)

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
        self._report(step, "default", _not_finite(self.algorithm, learned))
        tried = learned.updates + round(learned.metrics.get("skipped_updates", 0.0))
        for source, some in _by_source(groups):
            seen = self._seen.setdefault(source, _Seen())
            seen.take(some, updates=tried)
            if source in self.with_tools:
                self._report(step, source, seen.calls())
            if seen.flat_steps == 0:
                self._withdraw(step, source, FindingKind.FLAT_REWARDS)
            self._report(step, source, seen.rewards())

    def take_masked(self, step: int, mask: str, chains: int) -> None:
        """Report that the mask has left no token of a step to train on."""
        text = (
            f"The mask {mask!r} left out every sampled token of {count(chains, 'chain')}: there is "
            "nothing to train on.",
            "Correct it (`agentfly show RUN 1 --tokens --trust` shows which tokens it leaves out), "
            'or set rollout.mask = "all_sampled".',
        )
        self._report(step, "default", [(FindingKind.MASKED_OUT, *text)])

    def take_failures(self, step: int, groups: Sequence[Group]) -> None:
        """Look for causes of failed chains, also in a step that is too broken to learn from."""
        for source, some in _by_source(groups):
            chains = [member for group in some for member in group.members]
            self._report(step, source, _failures(chains, self._tasks_of(source)))

    def take_end(self, step: int, records: Sequence[MetricsRecord]) -> None:
        """Report a run in which nothing was learned, by the metrics of all its steps."""
        if not has_learned(records):
            others = [f"{finding.kind} of step {finding.step}" for finding in self.found]
            text = (
                f"Nothing was learned: no update changed the weights in {count(step, 'step')}.",
                f"Other findings say why: {', '.join(others)}."
                if others
                else "Look at the chains in trajectories/.",
            )
            self._report(step, "default", [(FindingKind.NOTHING_LEARNED, *text)])

    def take_unseen_tools(self, source: str, model: str, tools: Sequence[str]) -> None:
        """Report tools that the model can't call, before the first step."""
        if tools:
            found = unseen_tools_finding(source, model, tools)
            self._report(0, source, [(found.kind, found.sentence, found.way_out)])

    def take_restart(self, step: int, reason: str, *, restarts: int, limit: int) -> None:
        """Report that the run was taken up again, at the step of its last checkpoint."""
        self.found = [old for old in self.found if old.kind != FindingKind.LEARNER_LOST]
        text = (
            f"The learner was started again, {restarts} of at most {limit} times "
            f"(learner.max_restarts), and the run went on after step {step}: {reason}.",
            "Its log says more; a process that was killed often had too little memory.",
        )
        self._report(step, "default", [(FindingKind.LEARNER_LOST, *text)])

    def _tasks_of(self, source: str) -> list[Task]:
        return [task for task in self.tasks if task.source == source]

    def _report(self, step: int, source: str, certain: "Sequence[_Certain]") -> None:
        for kind, sentence, way_out in certain:
            if any((old.kind, old.source) == (kind, source) for old in self.found):
                continue
            finding = Finding(
                kind=kind, step=step, source=source, sentence=sentence, way_out=way_out
            )
            self.found.append(finding)
            _log.warning("step %d: %s", step, finding)
            self._write()

    def _withdraw(self, step: int, source: str, kind: FindingKind) -> None:
        """Drop a finding that no longer holds, and say so."""
        gone = [old for old in self.found if (old.kind, old.source) == (kind, source)]
        for old in gone:
            self.found.remove(old)
            _log.warning("step %d: %s of step %d no longer holds", step, old.kind, old.step)
            self._write()

    def _write(self) -> None:
        content = [asdict(one) for one in self.found]
        with whole_file(self.path) as file:
            data = {"v": FORMAT_VERSION, "kind": "findings", "findings": content}
            file.write((json.dumps(data, indent=1) + "\n").encode())


def unseen_tools_finding(source: str, model: str, tools: Sequence[str]) -> Finding:
    """Return the finding that a model can't call some tools, which is known before any chain."""
    return Finding(
        kind=FindingKind.UNSEEN_TOOLS,
        step=0,
        source=source,
        sentence=f"The model {model!r} never saw the tools {', '.join(tools)}, and will not call "
        "them: it was pre-trained on a few others, which `agentfly models info` names.",
        way_out="Let it imitate some calls first (agentfly sft), or take a general model such as "
        "smollm2-135m-instruct.",
    )


def has_learned(records: Sequence[MetricsRecord]) -> bool:
    """Return whether any update has changed the weights, by the metrics of a run's steps."""
    updates = [record.metrics.get("train/updates", 0.0) for record in records if record.step > 0]
    return any(updates) or not updates


_Certain = tuple[FindingKind, str, str]
"""Kind, sentence and way out."""


@dataclass(slots=True)
class _Seen:
    """What was seen of one source since the run began or was resumed."""

    chains: int = 0
    solved: int = 0
    results: dict[str, list[ToolResult]] = field(default_factory=dict)
    """Results by tool, until one call of it succeeded, then none are kept."""
    works: set[str] = field(default_factory=set)
    """Tools of which a call succeeded."""
    flat_steps: int = 0
    flat_chains: int = 0
    rewards_seen: set[float] = field(default_factory=set)
    """Rewards of the last steps without a difference."""

    def take(self, groups: Sequence[Group], *, updates: int) -> None:
        """Add a step's groups; `updates` counts those too that were left out as not finite."""
        chains = [member for group in groups for member in group.members]
        summary = summarize(chains)
        self.chains += summary.scored
        self.solved += round((summary.solved_share or 0.0) * summary.scored)
        for name, result in _calls(chains):
            if result.status is ToolStatus.OK:
                self.works.add(name)
            self.results.setdefault(name, []).append(result)
        for name in self.works:
            self.results[name] = []
        rewards = {chain.reward for chain in chains if chain.reward is not None}
        nothing_differs = not any(group.has_spread for group in groups)
        flat = len(rewards) == 1 or (bool(rewards) and nothing_differs and updates == 0)
        self.flat_steps = self.flat_steps + 1 if flat else 0
        self.flat_chains = self.flat_chains + summary.scored if flat else 0
        self.rewards_seen = (self.rewards_seen | rewards) if flat else set()

    def calls(self) -> list[_Certain]:
        """Return what is certain about the calls so far."""
        if not self.results:
            return self._no_calls()
        if self.works:
            return self._broken_tools()
        every = [result for results in self.results.values() for result in results]
        invalid = [result for result in every if result.status.invalid]
        if len(invalid) < len(every) or len(every) < MIN_CALLS:
            return self._broken_tools()
        kinds = Counter(result.status.replace("_", " ") for result in every)
        listed = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        return [
            (
                FindingKind.INVALID_CALLS,
                f"None of {len(every)} tool calls was valid: {listed}; the first answer was: "
                f"{_short(every[0].observation)}",
                _TEACH_CALLS,
            )
        ]

    def _no_calls(self) -> list[_Certain]:
        if self.chains < MIN_CHAINS or self.solved >= MIN_SOLVED * self.chains:
            return []
        return [
            (
                FindingKind.NO_CALLS,
                f"The model called no tool in any of {self.chains} chains.",
                _TEACH_CALLS,
            )
        ]

    def _broken_tools(self) -> list[_Certain]:
        failed = {
            name: results
            for name, results in self.results.items()
            if len(results) >= MIN_CALLS and not any(result.status.invalid for result in results)
        }
        return [_tool_fails(name, results) for name, results in failed.items()][:1]

    def rewards(self) -> list[_Certain]:
        """Return what is certain about the rewards so far."""
        if self.flat_steps < FLAT_STEPS and self.flat_chains < FLAT_CHAINS:
            return []
        values = sorted(self.rewards_seen)
        easy = min(values) >= 1.0
        if easy and self.solved < self.chains:
            return []  # The run itself has taught the model to solve them.
        what = (
            f"got the reward {values[0]:g}"
            if len(values) == 1
            else "got the same reward as the others of its task"
        )
        return [
            (
                FindingKind.FLAT_REWARDS,
                f"Every one of the last {self.flat_chains} chains {what}: nothing could be learned "
                f"from {count(self.flat_steps, 'step')}.",
                _HARDER if easy else _EASIER,
            )
        ]


_TEACH_CALLS = (
    "Show it one call (a worked example in the rows' `messages`), let it imitate some first "
    '(agentfly sft), try another kind (kind = "tags" or "react"), or take a larger model.'
)
_HARDER = (
    "The model may solve these tasks already: take harder ones, or end such a run early by "
    "train.target_reward. If it should not, see whether the reward accepts wrong answers too."
)
_EASIER = (
    "Take easier tasks or a reward with partial credit, let the model imitate solutions first "
    "(agentfly sft), raise rollout.num_chains, or take a larger model. `agentfly validate` shows "
    "whether right answers score; for a reward on an environment's state, play a right path."
)


def _not_finite(algorithm: str, learned: StepMetrics) -> list[_Certain]:
    skipped = round(learned.metrics.get("skipped_updates", 0.0))
    if not skipped:
        return []
    advantages, losses = (
        round(learned.metrics.get(f"{what}/not_finite", 0.0)) for what in ("advantages", "loss")
    )
    if advantages:
        what, way_out = f"the advantage of {algorithm}", _FINITE_ADVANTAGE
    elif losses:
        what, way_out = f"the loss of {algorithm}", _FINITE_LOSS
    else:
        what, way_out = f"the gradient of {algorithm}", _FINITE_GRADIENT
    tokens = advantages or losses
    where = f" in {count(tokens, 'token')}" if tokens else ", though its loss was"
    return [
        (
            FindingKind.NOT_FINITE,
            f"{skipped} of {count(learned.updates + skipped, 'update')} changed nothing: "
            f"{what} was not finite (NaN or infinite){where}.",
            way_out,
        )
    ]


_FINITE_ADVANTAGE = (
    "Look in the advantage function for a division by 0, such as by a standard deviation or by a "
    "sum that may be 0, and for a logarithm of 0: add a small number, or clamp."
)
_FINITE_LOSS = (
    "Look in the loss function for an exp that overflows, a logarithm of 0 or a division by 0: "
    "clamp its argument. The advantages were finite."
)
_FINITE_GRADIENT = (
    "Look in the loss function for a square root or a norm at 0, whose derivative is infinite, or "
    "lower train.lr."
)


def _tool_fails(name: str, results: Sequence[ToolResult]) -> _Certain:
    late = all(result.status is ToolStatus.TIMEOUT for result in results)
    way_out = (
        "Give it more time, @tool(timeout=...), or make it faster."
        if late
        else "Correct the tool, and call it once by hand; log.txt has the traceback."
    )
    return (
        FindingKind.TOOL_FAILS,
        f"The tool {name!r} failed in all of its {len(results)} calls, first with: "
        f"{_short(results[0].observation)}",
        way_out,
    )


def _failures(chains: Sequence[Trajectory], tasks: Sequence[Task]) -> list[_Certain]:
    failed = [chain for chain in chains if chain.stop.verdict.failure and chain.error]
    missing = _missing_field(failed)
    if missing is not None:
        lacking = [task.id for task in tasks if missing not in task.fields]
        named = ", ".join(lacking[:SHOWN]) + (", …" if len(lacking) > SHOWN else "")
        return [
            (
                FindingKind.MISSING_FIELD,
                f"{len(lacking)} of {count(len(tasks), 'row')} lack the field {missing!r}, which "
                f"the reward reads: {named}. Their chains fail and are not learned from.",
                f"Add {missing!r} to these rows, or give the reward's parameter a default.",
            )
        ]
    others = [chain for chain in failed if chain.stop is not StopReason.TIME_LIMIT]
    if not others:
        return []
    return [
        (
            FindingKind.FAILED_CHAINS,
            f"{len(others)} of {count(len(chains), 'chain')} failed and are not learned from, the "
            f"first, {others[0].chain_id}, by {_short(others[0].error or '')}",
            "Correct the cause; metrics.jsonl counts failures by cause.",
        )
    ]


_NO_FIELD = re.compile(r"has no field '([^']+)'")


def _missing_field(failed: Sequence[Trajectory]) -> str | None:
    for chain in failed:
        found = _NO_FIELD.search(chain.error or "")
        if found and found[1] not in chain.task.fields:
            return found[1]
    return None


def _calls(chains: Sequence[Trajectory]) -> Iterator[tuple[str, ToolResult]]:
    for chain in chains:
        for turn in chain.turns:
            for call, result in zip(turn.message.tool_calls, turn.results, strict=False):
                yield call.name, result


def _by_source(groups: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    def source(group: Group) -> str:
        return group.task.source

    for name, some in groupby(sorted(groups, key=source), key=source):
        yield name, list(some)


def _short(text: str, length: int = 200) -> str:
    line = " ".join(text.split())
    ended = line if len(line) <= length else f"{line[:length]}…"
    return ended if ended.endswith((".", "!", "?", "…")) else f"{ended}."


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> count(1, "step"), count(3, "step")
    ('1 step', '3 steps')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
