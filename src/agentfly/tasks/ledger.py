"""Ledger: the one record of every task issued, finished and trained on.

Resume, staleness, evaluation and the progress bar use it. On disk it is a journal of text lines,
each of which is complete or absent:

    {"v":2,"kind":"ledger","do":"open","tasks":"9f…","count":3,"seed":7,"shuffle":true,"crc":"…"}
    {"v":2,"kind":"ledger","do":"issue","groups":["b/0","a/0"],"crc":"…"}
    {"v":2,"kind":"ledger","do":"finish","group":"b/0","stops":{"answered":8},"crc":"…"}
    {"v":2,"kind":"ledger","do":"train","groups":["b/0"],"step":1,"crc":"…"}
    {"v":2,"kind":"ledger","do":"save","step":1,"crc":"…"}

A written line survives this process, also after `kill -9`. Training is also synced to the disk,
with all lines before it: after a power cut, work may be repeated, but nothing is trained twice.
This needs a fixed order: save a group's trajectories, then `finish`; update the
weights, then `train`, then save the checkpoint, then `save`. A run that resumes compares the last
`save` with the checkpoint that it found, and warns of an older one. Lines of version 1 have no
checksums and no `save`.
"""

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.journal import Journal, read_records
from agentfly.tasks.ledger_state import LedgerState, by_position
from agentfly.tasks.order import Mixture, Order, Visit
from agentfly.types import Seed, StopReason, Task

KIND = "ledger"
FORMAT_VERSION = 2
CHECKSUMS_FROM = 2
NEW_RUN = (
    "start a new run under another name, with `model.name` set to the folder of this one's last "
    "checkpoint"
)
WAY_OUT = f"Restore it from a copy, or {NEW_RUN}"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a run, in groups."""

    issued: int
    """Total, repetitions not counted."""
    in_flight: int
    ready: int
    """Finished, and waiting to be trained on."""
    trained: int
    abandoned: int
    epoch: int
    """Number of the epoch, from 0."""
    step: int
    staleness: int
    """Steps since the oldest group that still waits for training was issued."""
    stops: Mapping[str, int]
    """Number of chains of the finished groups that ended for each reason."""


class Ledger:
    """Record that issues tasks in order and keeps the state of each.

    >>> tasks = [Task.from_row({"id": name}) for name in "ab"]
    >>> ledger = Ledger.open(None, tasks, seed=Seed(0), shuffle=False)
    >>> [first, second] = ledger.issue(2)
    >>> ledger.finish(second.group_id, {StopReason.ANSWERED: 8})
    >>> [visit.group_id for visit in ledger.unfinished()], [v.group_id for v in ledger.ready()]
    (['a/0'], ['b/0'])
    """

    def __init__(self, state: LedgerState, journal: Journal | None, epochs: int | None) -> None:
        self._state = state
        self._journal = journal
        self._epochs = epochs
        self._again = by_position(state.issued.values())
        """Issued by an earlier process, or reissued: these go before new ones."""

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        tasks: Sequence[Task],
        *,
        seed: Seed,
        shuffle: bool = True,
        weights: Mapping[str, float] | None = None,
        epochs: int | None = None,
        step: int | None = None,
    ) -> Self:
        """Start a ledger, or continue an existing one.

        Args:
            path: The journal; None keeps the ledger in memory.
            tasks: The same tasks, in the same order, as when the ledger was started.
            seed: Seed of the order of each epoch.
            shuffle: False visits the tasks as they are listed.
            weights: Share of each source, if there are several.
            epochs: Number of passes over all tasks; None for no limit.
            step: Step of the checkpoint that a run resumes from. Everything in the journal after
                that step's training is undone, because the weights do not include it. A step before
                the last saved one causes a warning.

        Raises:
            FormatError: The journal is damaged or missing, or it records checkpoints although
                `step` is 0.
        """
        order: Order | Mixture
        if weights is None:
            order = Order(tasks, seed=seed, shuffle=shuffle)
        else:
            order = Mixture(tasks, weights, seed=seed, shuffle=shuffle)
        if path is None:
            return cls(LedgerState(order), None, epochs)
        _require_there(Path(path), step)
        journal = Journal(path, kind=KIND, version=FORMAT_VERSION, checksums=True)
        try:
            header = {"tasks": order.digest, "count": len(order), "seed": seed.value}
            state = _restore(journal, {"do": "open", **header, "shuffle": shuffle}, order, step)
        except BaseException:
            journal.close()
            raise
        return cls(state, journal, epochs)

    @property
    def position(self) -> int:
        """Number of visits issued, repetitions not counted."""
        return self._state.position

    @property
    def step(self) -> int:
        """Last step that was trained; 0 before the first."""
        return self._state.step

    @property
    def progress(self) -> Progress:
        """Number of groups in each state."""
        state = self._state
        oldest = min(state.step_of_issue.values(), default=state.step)
        return Progress(
            issued=state.position,
            in_flight=len(state.issued),
            ready=len(state.finished),
            trained=len(state.trained),
            abandoned=len(state.abandoned),
            epoch=state.position // len(state.order),
            step=state.step,
            staleness=state.step - oldest,
            stops=dict(state.stops.most_common()),
        )

    def issue(self, count: int = 1) -> list[Visit]:
        """Issue visits: first those that were issued and never finished, then the next in order.

        Returns fewer than `count` at the end of the last epoch.
        """
        again = self._again[:count]
        start = self.position
        stop = min(start + count - len(again), self._end)
        visits = again + [self._state.order.visit(position) for position in range(start, stop)]
        if visits:
            self._change({"do": "issue", "groups": [visit.group_id for visit in visits]})
        self._again = self._again[count:]
        return visits

    def finish(self, group_id: str, stops: Mapping[StopReason, int]) -> None:
        """Record that a group's chains have ended, with their stop reasons, and are saved."""
        counts = {str(reason): count for reason, count in stops.items()}
        self._change({"do": "finish", "group": group_id, "stops": counts})

    def train(self, group_ids: Iterable[str], *, step: int) -> None:
        """Record on disk that the weights of `step` have learned from these groups."""
        self._change({"do": "train", "groups": list(group_ids), "step": step})
        if self._journal:
            self._journal.sync()

    def save(self) -> None:
        """Record that there is a checkpoint of the last step; on disk when this returns."""
        self._change({"do": "save", "step": self.step})
        if self._journal:
            self._journal.sync()

    def abandon(self, group_id: str, reason: str) -> None:
        """Record that a group will not be trained on, for example because all its chains failed."""
        self._change({"do": "abandon", "group": group_id, "reason": reason})

    def reissue(self, group_id: str) -> None:
        """Issue a finished group again, for example because its trajectories are lost."""
        self._change({"do": "reissue", "group": group_id})
        self._again = by_position([*self._again, self._state.issued[group_id]])

    def is_closed(self, group_id: str) -> bool:
        """Return whether a group was trained on or abandoned."""
        return group_id in self._state.trained or group_id in self._state.abandoned

    def unfinished(self) -> list[Visit]:
        """Return the visits that were issued and have not finished, in order."""
        return by_position(self._state.issued.values())

    def ready(self) -> list[Visit]:
        """Return the visits that have finished and were not trained on, in order."""
        return by_position(self._state.finished.values())

    def close(self) -> None:
        """Sync and release the journal. Closing twice does nothing."""
        if self._journal:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _end(self) -> int:
        return sys.maxsize if self._epochs is None else self._epochs * len(self._state.order)

    def _change(self, change: dict[str, Any]) -> None:
        """Apply a change both in memory, which refuses an impossible one, and in the file."""
        self._state.apply(change)
        if self._journal:
            try:
                self._journal.append(change)
            except BaseException:
                path, order = self._journal.path, self._state.order
                self._state = _replayed(_without_undone(_lines(path), path), path, order)
                raise


def _restore(
    journal: Journal, header: dict[str, Any], order: Order | Mixture, step: int | None
) -> LedgerState:
    lines = _lines(journal.path)
    if not lines:
        journal.append(header)
        journal.sync()
        lines = [(1, header)]
    _require_same(journal.path, lines[0][1], header)
    kept = _without_undone(lines, journal.path)
    if step is not None:
        _compare_with_last_save(lines, step, journal.path)
    if step is not None and (mark := _mark(kept, step, journal.path)) < len(kept):
        journal.append({"do": "rewind", "step": step})
        journal.sync()
        del kept[mark:]
    return _replayed(kept, journal.path, order)


_Lines = list[tuple[int, dict[str, Any]]]


def _lines(path: Path) -> _Lines:
    records = read_records(path, kind=KIND, version=FORMAT_VERSION, checksums_from=CHECKSUMS_FROM)
    try:
        return list(records)
    except FormatError as error:
        raise FormatError(f"{error}, or {NEW_RUN}") from error


def _require_there(path: Path, step: int | None) -> None:
    if step and not (path.exists() and path.stat().st_size):
        raise FormatError(
            f"{path} is lost, and nothing else says which tasks the {step} steps of this run were "
            f"trained on. {WAY_OUT}"
        )


def _compare_with_last_save(lines: _Lines, step: int, path: Path) -> None:
    """Refuse or warn when the run resumes from before its last saved checkpoint."""
    saves = [change.get("step") for _, change in lines if change.get("do") in ("save", "rewind")]
    last = saves[-1] if saves else 0
    if not isinstance(last, int) or step >= last:
        return
    if step == 0:
        raise FormatError(
            f"{path} says that a checkpoint of step {last} was saved, and there is none. Restore "
            "the checkpoint from a copy, or start a new run under another name"
        )
    _log.warning(
        "the run goes back to step %d, although a checkpoint of step %d was saved: the steps "
        "between are taken again. To go on from there, restore that checkpoint from a copy",
        *(step, last),
    )


def _replayed(lines: _Lines, path: Path, order: Order | Mixture) -> LedgerState:
    state = LedgerState(order)
    for number, change in lines:
        try:
            state.apply(change)
        except (ValueError, TypeError) as error:
            raise FormatError(
                f"{path}:{number} can't follow the lines before it: {error}. {WAY_OUT}"
            ) from error
    return state


def _require_same(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    changed = [key for key in now if then.get(key) != now[key]]
    if changed:
        was = ", ".join(f"{key} {then.get(key)!r} (now {now[key]!r})" for key in changed)
        raise ConfigError(
            f"{path} was started with other tasks or another order: {was}. Resume with what it "
            "was started with, or start a new run"
        )


def _without_undone(lines: _Lines, path: Path) -> _Lines:
    """Return the lines without the header and without undone changes."""
    kept: _Lines = []
    for number, change in lines[1:]:
        if change.get("do") == "rewind":
            del kept[_mark(kept, change.get("step"), path) :]
        else:
            kept.append((number, change))
    return kept


def _mark(lines: _Lines, step: object, path: Path) -> int:
    """Return the number of lines up to the training of a step."""
    if step == 0:
        return 0
    for count, (_, change) in enumerate(lines, start=1):
        if change.get("do") == "train" and change.get("step") == step:
            return count
    raise FormatError(
        f"{path} knows of no training at step {step}, so a checkpoint of that step can't be "
        f"resumed with it: lines are lost, or the two are of different runs. {WAY_OUT}"
    )


def trained_groups(path: Path) -> dict[int, list[str]]:
    """Return the ids of the groups that each step has learned from, in their order.

    A step that a resumed run took again is the later one; without a file there is none.
    """
    lines = _lines(path) if path.exists() else []
    return {line["step"]: line["groups"] for _, line in lines if line.get("do") == "train"}
