"""Filters, order and pages of a table of chains, and the values that its filters offer."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from agentfly.observe.chain_index import IndexRow
from agentfly.observe.recorded_run import ChainFile
from agentfly.runtime.http.messages import RefusalError
from agentfly.runtime.names import suggestion

MAX_ROWS = 500
"""Rows of one page."""

Entry = tuple[ChainFile, IndexRow]

ORDERS: Mapping[str, Callable[[Entry], Any]] = {
    "step": lambda entry: (entry[0].step, not entry[0].held_out),
    "reward": lambda entry: entry[1].reward,
    "task": lambda entry: entry[1].task,
    "stop": lambda entry: entry[1].stop,
    "turns": lambda entry: entry[1].turns,
    "calls": lambda entry: entry[1].calls,
    "failed": lambda entry: entry[1].failed_calls,
    "tokens": lambda entry: entry[1].tokens,
    "seconds": lambda entry: sum(entry[1].seconds.values()),
    "wait": lambda entry: entry[1].longest[2],
    "version": lambda entry: entry[1].version,
}
"""Orders by name; chains without a value come last in both directions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainQuery:
    """Conditions, order and page of a table of chains."""

    set: str = ""
    """`train`, `eval`, or empty for both."""
    from_step: float | None = None
    to_step: float | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    scored: str = ""
    """`yes`, `no`, or empty for both."""
    task: str = ""
    """Part of a task's id or question, in any case."""
    stop: str = ""
    tool: str = ""
    failing: str = ""
    """`yes`: with a call, of the tool if one is named, that did not succeed."""
    cause: str = ""
    group: str = ""
    version: float | None = None
    text: str = ""
    """Text anywhere in the chain; found by a search, not by this query."""
    sort: str = "step"
    order: str = "desc"
    offset: float = 0
    limit: float = 100

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "ChainQuery":
        """Read the parameters of an address; RefusalError for wrong ones."""
        fields = cls.__dataclass_fields__
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name not in fields:
                raise _bad(f"unknown parameter {name[:50]!r}. {suggestion(name, list(fields))}")
            is_number = "float" in str(fields[name].type)
            if text:
                values[name] = _number(name, text) if is_number else text
        query = cls(**values)
        if query.sort not in ORDERS:
            raise _bad(f"unknown order {query.sort[:50]!r}. {suggestion(query.sort, list(ORDERS))}")
        return query

    def select(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the matching rows in order, all pages."""
        matching = [entry for entry in entries if self._matches(*entry)]
        key = ORDERS[self.sort]
        known = [entry for entry in matching if key(entry) is not None]
        known.sort(key=key, reverse=self.order == "desc")
        return known + [entry for entry in matching if key(entry) is None]

    def page(self, selected: list[Entry]) -> list[Entry]:
        """Return the rows of the page that is asked for."""
        start = max(0, int(self.offset))
        return selected[start : start + max(1, min(MAX_ROWS, int(self.limit)))]

    def _matches(self, file: ChainFile, row: IndexRow) -> bool:
        return (
            self.set in ("", "eval" if file.held_out else "train")
            and _within(file.step, self.from_step, self.to_step)
            and self._has_reward(row)
            and self.stop in ("", row.stop)
            and self.cause in ("", row.cause)
            and self.group in ("", row.group_id)
            and (self.version is None or self.version == row.version)
            and (not self.task or self._is_of_task(row))
            and self._has_tool(row)
        )

    def _has_reward(self, row: IndexRow) -> bool:
        if row.reward is None:
            return self.scored != "yes" and self.min_reward is None and self.max_reward is None
        return self.scored != "no" and _within(row.reward, self.min_reward, self.max_reward)

    def _is_of_task(self, row: IndexRow) -> bool:
        part = self.task.casefold()
        return part in row.task.casefold() or part in row.question.casefold()

    def _has_tool(self, row: IndexRow) -> bool:
        if self.tool and self.tool not in row.tools:
            return False
        if not self.failing:
            return True
        statuses = [row.tools[self.tool]] if self.tool else row.tools.values()
        return any(status != "ok" for counts in statuses for status in counts)


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _bad(f"{name} must be a number, got {text[:50]!r}") from error


def _bad(message: str) -> RefusalError:
    return RefusalError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def row_json(file: ChainFile, row: IndexRow) -> dict[str, Any]:
    """Return a row as the page takes it."""
    return {
        "file": file.path.name,
        "step": file.step,
        "held_out": file.held_out,
        "chain": row.chain_id,
        "group": row.group_id,
        "task": row.task,
        "reward": row.reward,
        "stop": row.stop,
        "cause": row.cause,
        "turns": row.turns,
        "calls": row.calls,
        "failed": row.failed_calls,
        "tokens": row.tokens,
        "seconds": round(sum(row.seconds.values()), 3),
        "wait": {"kind": row.longest[0], "name": row.longest[1], "seconds": row.longest[2]},
        "version": row.version,
        "question": row.question,
    }


def choices(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return what filters can be set to, with the number of chains of each."""
    stops: Counter[str] = Counter()
    tools: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    steps: set[int] = set()
    for file, row in entries:
        stops[row.stop] += 1
        tools.update(row.tools.keys())
        causes.update([row.cause] if row.cause else [])
        steps.add(file.step)
    ends = {"first_step": min(steps), "last_step": max(steps)} if steps else {}
    return {
        "stops": dict(stops.most_common()),
        "tools": dict(tools.most_common(100)),
        "causes": dict(causes.most_common(100)),
        **ends,
    }
