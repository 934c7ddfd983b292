"""The questions that people ask first of a run that misbehaves, answered from its index alone."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agentfly.observe.chain_index import IndexRow
from agentfly.serve.chain_query import Entry, row_json
from agentfly.types.trajectory import differ

MAX_ANSWERS = 50
"""Rows of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A sentence, a table, and chains to look at."""

    sentence: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    """Cells; one that is a mapping with `text` and `query` is a link to a table of chains."""
    chains: Sequence[Mapping[str, Any]] = ()

    def json(self) -> dict[str, Any]:
        """Return it as the page takes it."""
        return {
            "sentence": self.sentence,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows[:MAX_ANSWERS]],
            "chains": list(self.chains[:MAX_ANSWERS]),
        }


def got_worse(entries: Sequence[Entry], step: int) -> Answer:
    """Find tasks whose mean reward fell after a step."""
    before, after = (
        _rewards_by_task(entries, lambda s: s <= step),
        _rewards_by_task(entries, lambda s: s > step),
    )
    both = before.keys() & after.keys()
    fell = [(fmean(after[key]) - fmean(before[key]), key) for key in both]
    worse = sorted(pair for pair in fell if pair[0] < 0)
    asked = {row.task: row.question for _, row in entries}
    rows = [
        (
            _link(asked[task] or task, task=task, set=_set(held_out)),
            "held out" if held_out else "training",
            round(fmean(before[task, held_out]), 3),
            round(fmean(after[task, held_out]), 3),
            round(change, 3),
        )
        for change, (task, held_out) in worse
    ]
    tasks = {task for _, (task, _) in worse}
    chains = [e for e in entries if e[0].step > step and e[1].task in tasks]
    chains.sort(key=lambda entry: (entry[1].reward is None, entry[1].reward or 0.0))
    sentence = (
        f"{len(worse)} of {len(both)} tasks that were tried both up to step {step} and after it "
        "have a lower mean reward after it."
    )
    columns = ("task", "set", f"up to step {step}", "after", "change")
    return Answer(sentence=sentence, columns=columns, rows=rows, chains=_chains(chains))


def _rewards_by_task(
    entries: Iterable[Entry], when: Callable[[int], bool]
) -> dict[tuple[str, bool], list[float]]:
    rewards = defaultdict(list)
    for file, row in entries:
        if row.reward is not None and when(file.step):
            rewards[row.task, file.held_out].append(row.reward)
    return rewards


def failing_tools(entries: Sequence[Entry]) -> Answer:
    """Count the calls of each tool that did not succeed, by status."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for _, row in entries:
        for tool, statuses in row.tools.items():
            counts[tool].update(statuses)
    failed = {tool: found.total() - found["ok"] for tool, found in counts.items()}
    order = sorted(failed, key=lambda tool: failed[tool], reverse=True)
    rows = [
        (
            _link(tool, tool=tool, failing="yes"),
            counts[tool].total(),
            failed[tool],
            f"{failed[tool] / counts[tool].total():.1%}",
            ", ".join(f"{s} {n}" for s, n in counts[tool].most_common() if s != "ok") or "-",
        )
        for tool in order
    ]
    chains = sorted((e for e in entries if e[1].failed_calls), key=_failures, reverse=True)
    total, calls = sum(failed.values()), sum(found.total() for found in counts.values())
    share = f" ({total / calls:.1%})" if calls else ""
    sentence = f"{total:,} of {calls:,} calls{share} did not succeed, in {len(chains):,} chains."
    columns = ("tool", "calls", "failed", "share", "how")
    return Answer(sentence=sentence, columns=columns, rows=rows, chains=_chains(chains))


def _failures(entry: Entry) -> tuple[int, int]:
    return entry[1].failed_calls, entry[0].step


def longest_waits(entries: Sequence[Entry]) -> Answer:
    """Find what chains waited for longest, generation aside."""
    total: dict[tuple[str, str], float] = defaultdict(float)
    most: dict[tuple[str, str], float] = defaultdict(float)
    for _, row in entries:
        kind, name, seconds = row.longest
        if kind:
            total[kind, name] += seconds
            most[kind, name] = max(most[kind, name], seconds)
    order = sorted(most, key=lambda key: most[key], reverse=True)
    rows = [
        (kind, name, round(most[kind, name], 3), round(total[kind, name], 3))
        for kind, name in order
    ]
    chains = sorted(entries, key=lambda entry: entry[1].longest[2], reverse=True)
    sentence = "No chain waited for anything but generation."
    if order:
        kind, name = order[0]
        sentence = f"The longest single wait was {most[kind, name]:.3g} s, for {kind} ({name})."
    columns = ("waited for", "name", "longest, s", "sum of chains' longest, s")
    return Answer(sentence=sentence, columns=columns, rows=rows, chains=_chains(chains))


def flat_groups(entries: Sequence[Entry]) -> Answer:
    """Find groups in which no two rewards differ: they teach nothing by comparison."""
    groups: dict[tuple[int, str], list[Entry]] = defaultdict(list)
    for file, row in entries:
        if not file.held_out and row.reward is not None:
            groups[file.step, row.group_id].append((file, row))
    flat = {key: members for key, members in groups.items() if _is_flat([r for _, r in members])}
    steps = Counter(step for step, _ in groups)
    of_step = Counter(step for step, _ in flat)
    rows = [
        (
            _link(f"step {step}", from_step=step, to_step=step, set="train"),
            of_step[step],
            steps[step],
            f"{of_step[step] / steps[step]:.0%}",
        )
        for step in sorted(steps, reverse=True)
    ]
    chains = [members[0] for _, members in sorted(flat.items(), reverse=True)]
    highest = sum(members[0][1].reward == 1.0 for members in flat.values())
    sentence = (
        f"{len(flat):,} of {len(groups):,} groups have equal rewards: {highest:,} of them are all "
        f"at 1, {sum(not members[0][1].reward for members in flat.values()):,} all at 0."
    )
    columns = ("step", "groups without spread", "groups", "share")
    return Answer(sentence=sentence, columns=columns, rows=rows, chains=_chains(chains))


def _is_flat(rows: Sequence[IndexRow]) -> bool:
    rewards = [row.reward for row in rows if row.reward is not None]
    return not differ(min(rewards), max(rewards))


def last_publish(entries: Sequence[Entry]) -> Answer:
    """Compare the chains of the last published weights with those of the version before."""
    of_version: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry[1].version is not None and not entry[0].held_out:
            of_version[entry[1].version].append(entry)
    versions = sorted(of_version)
    if len(versions) < 2:
        return Answer(sentence="Chains of two versions of the weights are needed to compare them.")
    old, new = versions[-2:]
    numbers = [
        (name, _measure(of_version[old], f), _measure(of_version[new], f)) for name, f in _MEASURES
    ]
    stops = sorted({entry[1].stop for entry in [*of_version[old], *of_version[new]]})
    numbers += [
        (f"stopped: {stop}", _share(of_version[old], stop), _share(of_version[new], stop))
        for stop in stops
    ]
    rows = [
        (name, a, b, None if a is None or b is None else round(b - a, 3)) for name, a, b in numbers
    ]
    sentence = (
        f"Training chains begun under version {new} ({len(of_version[new]):,}), compared with "
        f"version {old} ({len(of_version[old]):,}). Their tasks differ, as steps do."
    )
    chains = sorted(
        of_version[new], key=lambda entry: (entry[1].reward is None, entry[1].reward or 0)
    )
    columns = ("mean over chains", f"version {old}", f"version {new}", "change")
    return Answer(sentence=sentence, columns=columns, rows=rows, chains=_chains(chains))


_MEASURES: Sequence[tuple[str, Callable[[IndexRow], float | None]]] = (
    ("reward", lambda row: row.reward),
    ("turns", lambda row: row.turns),
    ("sampled tokens", lambda row: row.tokens),
    ("tool calls", lambda row: row.calls),
    ("failed calls", lambda row: row.failed_calls),
    ("seconds", lambda row: sum(row.seconds.values())),
)


def _measure(entries: Iterable[Entry], of: Callable[[IndexRow], float | None]) -> float | None:
    values = [value for _, row in entries if (value := of(row)) is not None]
    return round(fmean(values), 3) if values else None


def _share(entries: Sequence[Entry], stop: str) -> float:
    return round(sum(row.stop == stop for _, row in entries) / len(entries), 3)


def _chains(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [row_json(*entry) for entry, _ in zip(entries, range(MAX_ANSWERS), strict=False)]


def _link(text: str, **query: str | int) -> dict[str, Any]:
    return {"text": text, "query": query}


def _set(held_out: bool) -> str:  # noqa: FBT001 - a column of the index
    return "eval" if held_out else "train"


QUESTIONS: Mapping[str, Callable[[Sequence[Entry], int], Answer]] = {
    "worse": got_worse,
    "tools": lambda entries, _: failing_tools(entries),
    "waits": lambda entries, _: longest_waits(entries),
    "flat": lambda entries, _: flat_groups(entries),
    "publish": lambda entries, _: last_publish(entries),
}
"""Questions by name."""
