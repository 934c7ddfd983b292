"""The asynchronous stage: sampling goes on in the background, as far ahead as the bound allows.

    ledger ──► may begin? ──► chains ──► finished groups ──► choose ──► a step's groups ──► learner
                  ▲                                                         │
                  └────────── slots: taken groups ◄─────────────────────────┘
                  └────────── version: published weights ◄── learner

Weights change under chains in flight; each token has its own version. Which groups may begin, and
which a step may take, is decided by `StalenessWindow`. A step's groups are in the order of the
ledger. Their chains are saved when the step takes them, so a step's file is what it has learned.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentfly.errors import RunError
from agentfly.observe import TrajectoryWriter
from agentfly.rollout import GroupPlan
from agentfly.runtime.ordered import one_error
from agentfly.tasks import Visit
from agentfly.training.rollout_stages import MAX_ROUNDS, ChainRunner, GroupPlanner, Sampled
from agentfly.training.staleness import StalenessWindow, oldest_version
from agentfly.types import Group


class AsyncSampler:
    """Keeps groups in flight while the learner works, and gives each step those that finished."""

    def __init__(
        self,
        chains: ChainRunner,
        planner: GroupPlanner,
        window: StalenessWindow,
        finished: Iterable[Group] = (),
    ) -> None:
        """Take over the groups that an earlier process finished.

        Args:
            chains: Runs the chains.
            planner: Plans groups and keeps the ledger.
            window: Bound on the age of tokens; its version and step are those of the run.
            finished: Groups of a checkpoint. Those that could not be trained within the bound any
                more, after a change of the settings, are sampled again.
        """
        self.finished: dict[str, Group] = {}
        self._chains = chains
        self._clock = chains.clock
        self._planner = planner
        self._window = window
        self._visits: dict[str, Visit] = {}
        """Visits of all open groups."""
        self._waiting: deque[Visit] = deque()
        """Visits that were issued and not begun."""
        self._left_out: list[Group] = []
        """Groups without spread since the last step, which others replace."""
        self._changed = asyncio.Event()
        self._last_taken = 0.0
        self._paced_seconds = 0.0
        self._restore(finished)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Sample while the block runs; what is in flight at its end is cancelled."""
        with one_error():
            async with (
                self._chains.stream(self._plans()) as groups,
                asyncio.TaskGroup() as tasks,
            ):
                collecting = tasks.create_task(self._collect(groups))
                self._last_taken = self._clock.now()
                try:
                    yield
                finally:
                    collecting.cancel()

    async def sample(self, file: Path) -> Sampled:
        """Wait for the groups of the next step, and save them to `file`."""
        started = self._clock.now()
        await self._until(lambda: self._choice() is not None)
        waited = self._clock.now() - started
        chosen = self._choice()
        assert chosen is not None, "there was a choice, and nothing has changed since"
        self._window.take(chosen)
        self._changed.set()
        groups = self._in_order(chosen)
        left_out, self._left_out = self._left_out, []
        with TrajectoryWriter(file) as writer:
            for group in (*groups, *left_out):
                writer.write_group(group)
        self._require_within_bound(groups)
        self._planner.check([*groups, *left_out])
        groups, others = self._planner.sort(groups)
        self._planner.require_some(groups, left_out)
        return Sampled(
            groups=groups,
            left_out=[*left_out, *others],
            seconds=self._since_last(),
            metrics=self._metrics(waited, len(chosen)),
        )

    def trained(self, sampled: Sampled) -> None:
        """Forget the groups of a step."""
        for group in sampled.all:
            self.finished.pop(group.id, None)
            self._visits.pop(group.id, None)

    def published(self, version: int) -> None:
        """Let groups begin that can be trained from this version on."""
        self._window.version = version
        self._changed.set()

    def _choice(self) -> list[str] | None:
        ready = [group for group in self.finished if group in self._window]
        enough = len(self._left_out) >= (MAX_ROUNDS - 1) * self._window.groups_per_step
        return self._window.choose(ready, at_least=0 if enough else None)

    async def _plans(self) -> AsyncIterator[GroupPlan]:
        """Yield the next visit whenever a group may begin."""
        while True:
            started = self._clock.now()
            await self._until(lambda: self._window.may_begin)
            self._paced_seconds += self._clock.now() - started
            visit = self._waiting.popleft() if self._waiting else self._issue()
            self._window.begin(visit.group_id)
            yield self._planner.plan(visit)

    def _issue(self) -> Visit:
        [visit] = self._planner.ledger.issue()
        self._visits[visit.group_id] = visit
        return visit

    async def _collect(self, groups: AsyncIterator[Group]) -> None:
        async for group in groups:
            self._finish(group)

    def _finish(self, group: Group) -> None:
        """Queue a finished group with the versions of its tokens, or leave it out."""
        self._planner.finish(group)
        if self._planner.replace_flat and self._planner.leaves_out(group):
            self._planner.sort([group])
            self._window.drop([group.id])
            self._left_out.append(group)
        else:
            self.finished[group.id] = group
            self._window.finish(group)
        self._changed.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def _in_order(self, group_ids: Iterable[str]) -> list[Group]:
        by_position = sorted(group_ids, key=lambda group: self._visits[group].position)
        return [self.finished[group] for group in by_position]

    def _require_within_bound(self, groups: Sequence[Group]) -> None:
        """Raise RunError if an engine reports tokens that are older than it could have sampled."""
        oldest_allowed = self._window.taken - 1 - self._window.max_staleness
        for group in groups:
            oldest = oldest_version(group)
            if oldest is not None and oldest < oldest_allowed:
                raise RunError(
                    f"group {group.id} has tokens of version {oldest}, and no version before "
                    f"{oldest_allowed} was sampled from when it began: the engine does not record "
                    "the versions that were published to it. Set rollout.max_staleness = 0, or use "
                    "an engine that does"
                )

    def _since_last(self) -> float:
        before, self._last_taken = self._last_taken, self._clock.now()
        return self._last_taken - before

    def _metrics(self, waited: float, taken: int) -> dict[str, float]:
        paced, self._paced_seconds = self._paced_seconds, 0.0
        queued = len(self.finished) - taken
        return {
            "queue/finished_groups": float(queued),
            "queue/groups_in_flight": float(len(self._window) - queued),
            "time/waiting_for_groups": waited,
            "time/waiting_for_learner": paced,
        }

    def _restore(self, finished: Iterable[Group]) -> None:
        """Bring ledger and checkpoint together.

        The ledger goes back to the last training, and the checkpoint is a little younger: groups
        that it holds may have to be issued again, and others that finished before it may be lost.
        """
        ledger = self._planner.ledger
        for visit in ledger.ready():
            ledger.reissue(visit.group_id)
        usable = [group for group in finished if not ledger.is_closed(group.id)]
        kept = {group.id: group for group in self._window.restore(usable)}
        while kept:
            visit = self._issue()
            if group := kept.pop(visit.group_id, None):
                self._planner.finish(group)
                self.finished[group.id] = group
            else:
                self._waiting.append(visit)
