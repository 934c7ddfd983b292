"""State of every visit. Only records change it, so replaying them restores it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from agentfly.tasks.order import Mixture, Order, Visit

Change = Mapping[str, Any]
"""Line of the ledger, for example {"do": "train", "groups": ["a/0"], "step": 1}."""


class LedgerState:
    """State of all visits: each is issued, then finished, then trained on or abandoned."""

    def __init__(self, order: Order | Mixture) -> None:
        self.order = order
        self.position = 0
        """Number of visits issued, repetitions not counted."""
        self.step = 0
        """Last step that was trained."""
        self.issued: dict[str, Visit] = {}
        self.finished: dict[str, Visit] = {}
        self.trained: dict[str, int] = {}
        """Step at which each group was trained."""
        self.abandoned: set[str] = set()
        self.step_of_issue: dict[str, int] = {}
        """Last trained step at the time when each untrained group was issued."""
        self.stops: Counter[str] = Counter()

    def apply(self, change: Change) -> None:
        """Apply one change; raise ValueError if it is impossible in this state."""
        match change:
            case {"do": "issue", "groups": [*groups]}:
                self._issue(groups)
            case {"do": "finish", "group": str(group), "stops": dict(stops)}:
                self.finished[group] = _take(self.issued, group, "in flight")
                self.stops.update(stops)
            case {"do": "reissue", "group": str(group)}:
                self.issued[group] = _take(self.finished, group, "finished and untrained")
            case {"do": "abandon", "group": str(group)}:
                self._abandon(group)
            case {"do": "train", "groups": [*groups], "step": int(step)}:
                self._train(groups, step)
            case {"do": "save", "step": int(step)}:
                self._require_last_step(step)
            case _:
                raise ValueError(f"unknown change {dict(change)!r}")

    def _issue(self, groups: Iterable[str]) -> None:
        for group in groups:
            if group not in self.issued:
                visit = self.order.visit(self.position)
                if visit.group_id != group:
                    raise ValueError(
                        f"group {group!r} was issued where {visit.group_id!r} is next in order"
                    )
                self.issued[group] = visit
                self.position += 1
            self.step_of_issue[group] = self.step

    def _abandon(self, group: str) -> None:
        _take(self.finished if group in self.finished else self.issued, group, "open")
        del self.step_of_issue[group]
        self.abandoned.add(group)

    def _train(self, groups: list[str], step: int) -> None:
        if step <= self.step:
            raise ValueError(f"steps must rise: got {step} after {self.step}")
        missing = [group for group in groups if group not in self.finished]
        if missing or len(set(groups)) != len(groups):
            raise ValueError(
                f"groups are trained once, after they finished: got {missing or groups} at step "
                f"{step}"
            )
        for group in groups:
            del self.finished[group], self.step_of_issue[group]
            self.trained[group] = step
        self.step = step

    def _require_last_step(self, step: int) -> None:
        if step != self.step:
            raise ValueError(f"step {step} was saved, and the last trained step is {self.step}")


def _take(groups: dict[str, Visit], group: str, expected: str) -> Visit:
    if group not in groups:
        raise ValueError(f"group {group!r} is not {expected}")
    return groups.pop(group)


def by_position(visits: Iterable[Visit]) -> list[Visit]:
    """Return visits sorted by their position in the run."""
    return sorted(visits, key=lambda visit: visit.position)
