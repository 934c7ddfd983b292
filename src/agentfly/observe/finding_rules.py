"""Rules by which a run's chains show what keeps it from learning.

Each rule returns a diagnosis only where it is certain: after enough chains, calls or steps.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agentfly.observe.summary import summarize
from agentfly.types import Group, StepMetrics, StopReason, Task, ToolResult, ToolStatus, Trajectory
from agentfly.types.short_text import count

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


class FindingKind(StrEnum):
    """Kind of trouble."""

    NO_CALLS = "no_calls"
    """The model calls no tool."""
    INVALID_CALLS = "invalid_calls"
    """All calls are malformed, of unknown tools, have wrong arguments, or are of actions that the
    environment refused."""
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


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One kind of trouble, in a sentence, and the way out of it."""

    kind: FindingKind
    sentence: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.sentence} {self.way_out}"


@dataclass(slots=True)
class SourceHistory:
    """Counts of one source's chains since the run was started or resumed."""

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

    def diagnose_calls(self) -> Diagnosis | None:
        """Return what is wrong with the calls so far, once that is certain."""
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
        return Diagnosis(
            FindingKind.INVALID_CALLS,
            f"None of {len(every)} tool calls was valid: {listed}. The result of the first: "
            f"{_short(every[0].observation)}",
            _TEACH_CALLS,
        )

    def _no_calls(self) -> Diagnosis | None:
        if self.chains < MIN_CHAINS or self.solved >= MIN_SOLVED * self.chains:
            return None
        return Diagnosis(
            FindingKind.NO_CALLS,
            f"The model did not call a tool in any of {self.chains} chains.",
            _TEACH_CALLS,
        )

    def _broken_tools(self) -> Diagnosis | None:
        failed = {
            name: results
            for name, results in self.results.items()
            if len(results) >= MIN_CALLS and not any(result.status.invalid for result in results)
        }
        return next((_tool_fails(name, results) for name, results in failed.items()), None)

    def diagnose_rewards(self) -> Diagnosis | None:
        """Report rewards that do not differ, once that is certain."""
        if self.flat_steps < FLAT_STEPS and self.flat_chains < FLAT_CHAINS:
            return None
        values = sorted(self.rewards_seen)
        easy = min(values) >= 1.0
        if easy and self.solved < self.chains:
            return None  # The run itself has taught the model to solve them.
        what = (
            f"got the reward {values[0]:g}"
            if len(values) == 1
            else "got the same reward as the other chains of its task"
        )
        return Diagnosis(
            FindingKind.FLAT_REWARDS,
            f"Every one of the last {self.flat_chains} chains {what}: nothing could be learned "
            f"from {count(self.flat_steps, 'step')}.",
            _HARDER if easy else _EASIER,
        )


_TEACH_CALLS = (
    "Show it an example of a call (in the `messages` of each row), train it on some calls first "
    '(agentfly sft), try another format of calls (kind = "tags" or "react"), or use a larger model.'
)
_HARDER = (
    "The model may already solve these tasks: use harder ones, or set train.target_reward, which "
    "ends such a run early. If it can't be that good, check whether the reward also accepts wrong "
    "answers."
)
_EASIER = (
    "Use easier tasks or a reward with partial credit, train the model on solutions first "
    "(agentfly sft), raise rollout.num_chains, or use a larger model. `agentfly validate` checks "
    "that correct answers get the full reward."
)


def diagnose_not_finite(algorithm: str, learned: StepMetrics) -> Diagnosis | None:
    """Report updates that were skipped, and which of their numbers was NaN or infinite."""
    skipped = round(learned.metrics.get("skipped_updates", 0.0))
    if not skipped:
        return None
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
    where = f" in {count(tokens, 'token')}" if tokens else ", although its loss was finite"
    return Diagnosis(
        FindingKind.NOT_FINITE,
        f"{skipped} of {count(learned.updates + skipped, 'update')} changed nothing: "
        f"{what} was not finite (NaN or infinite){where}.",
        way_out,
    )


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


def _tool_fails(name: str, results: Sequence[ToolResult]) -> Diagnosis:
    late = all(result.status is ToolStatus.TIMEOUT for result in results)
    way_out = (
        "Give it more time with @tool(timeout=...), or make it faster."
        if late
        else "Fix the tool, and try it once without a model; log.txt has the traceback."
    )
    return Diagnosis(
        FindingKind.TOOL_FAILS,
        f"All {len(results)} calls of the tool {name!r} failed. The first error: "
        f"{_short(results[0].observation)}",
        way_out,
    )


def diagnose_failures(chains: Sequence[Trajectory], tasks: Sequence[Task]) -> Diagnosis | None:
    """Report why chains failed: a field that rows lack, or else the first one's error."""
    failed = [chain for chain in chains if chain.stop.verdict.failure and chain.error]
    missing = _missing_field(failed)
    if missing is not None:
        lacking = [task.id for task in tasks if missing not in task.fields]
        named = ", ".join(lacking[:SHOWN]) + (", …" if len(lacking) > SHOWN else "")
        return Diagnosis(
            FindingKind.MISSING_FIELD,
            f"{len(lacking)} of {count(len(tasks), 'row')} lack the field {missing!r}, which "
            f"the reward reads: {named}. Their chains fail and are not trained on.",
            f"Add {missing!r} to these rows, or give the reward's parameter a default.",
        )
    others = [chain for chain in failed if chain.stop is not StopReason.TIME_LIMIT]
    if not others:
        return None
    return Diagnosis(
        FindingKind.FAILED_CHAINS,
        f"{len(others)} of {count(len(chains), 'chain')} failed and are not trained on. The first, "
        f"{others[0].chain_id}: {_short(others[0].error or '')}",
        "Fix the cause; metrics.jsonl counts failures by cause.",
    )


def diagnose_masked(mask: str, chains: int) -> Diagnosis:
    """Report a mask that leaves no token to train on."""
    return Diagnosis(
        FindingKind.MASKED_OUT,
        f"The mask {mask!r} left out every sampled token of {count(chains, 'chain')}: there is "
        "nothing to train on.",
        "Fix the mask (`agentfly show RUN 1 --tokens --trust` shows which tokens it leaves out), "
        'or set rollout.mask = "all_sampled".',
    )


def diagnose_restart(step: int, reason: str, *, restarts: int, limit: int) -> Diagnosis:
    """Report that the learner lost a process."""
    return Diagnosis(
        FindingKind.LEARNER_LOST,
        f"The learner was restarted, {restarts} of at most {limit} times (learner.max_restarts), "
        f"and the run went on after step {step}: {reason}.",
        "Read its log; a process that was killed often had too little memory.",
    )


def diagnose_unseen_tools(model: str, tools: Sequence[str]) -> Diagnosis:
    """Report tools that a model can't call, which is known before any chain."""
    return Diagnosis(
        FindingKind.UNSEEN_TOOLS,
        f"The model {model!r} never saw the tools {', '.join(tools)}, and will not call "
        "them: it was pre-trained with a few other tools, which "
        f"`agentfly models info {model}` lists.",
        "Train it on some calls first (agentfly sft), or use a general model such as "
        "smollm2-135m-instruct.",
    )


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
            for call, result in turn.call_results:
                yield call.name, result


def _short(text: str, length: int = 200) -> str:
    line = " ".join(text.split())
    ended = line if len(line) <= length else f"{line[:length]}…"
    return ended if ended.endswith((".", "!", "?", "…")) else f"{ended}."
