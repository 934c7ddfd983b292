"""Groups of chains: which to run, and the finished ones as a stream.

    plans ──► group slot free ──► one of max_concurrent places ──► chain ──► place free for the next
                   ▲                        ▲                       │
                   │                        └── back-off ◄── failure of infrastructure
                   │           last member of its group ──► group reward ──► Group
                   └──────────────────── taken by the consumer ◄──────────────┘

Chains are admitted in order and never wait for one another: only running chains hold a place, not
those that wait to be retried or to be scored with their group. A bound on the groups in flight
delays new groups until the consumer has taken finished ones.
"""

from asyncio import CancelledError, Queue, Semaphore, TaskGroup
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    MutableMapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, Self

from agentfly.errors import ConfigError
from agentfly.rollout.callbacks import call_user
from agentfly.rollout.scoring import GroupScoring
from agentfly.runtime.ordered import one_error
from agentfly.types import (
    Attempt,
    ChainHandle,
    Clock,
    Group,
    GroupReward,
    Harness,
    OnEvent,
    Rewarded,
    Seed,
    Stopped,
    StopReason,
    Task,
    Trajectory,
    chain_id,
    group_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Task to visit, and the number of chains."""

    task: Task
    visit: int
    size: int
    seed: Seed
    """Seed of this visit."""
    spares: int = 0
    """Chains that are begun in addition. Those that are not needed are stopped as surplus."""
    favor_fast: bool = False
    """Keep the chains that end first; by default spares only replace chains that failed."""

    @property
    def id(self) -> str:
        """The group's id."""
        return group_id(self.task.id, self.visit)


def plan_groups(tasks: Iterable[Task], *, num_chains: int, seed: Seed) -> list[GroupPlan]:
    """Plan one group per task; a task that occurs twice gets two visits, with distinct ids."""
    visits: dict[str, int] = {}
    plans = []
    for task in tasks:
        visit = visits.get(task.id, 0)
        visits[task.id] = visit + 1
        plans.append(
            GroupPlan(
                task=task, visit=visit, size=num_chains, seed=seed.child("task", task.id, visit)
            )
        )
    return plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Harness of one source's chains, and the reward of its groups."""

    harness: Harness
    group_reward: GroupReward | None = None
    group_reward_seconds: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Settings for running plans."""

    runner_of: Callable[[Task], Runner]
    """Runner of each task's source."""
    clock: Clock
    max_concurrent: int
    """Maximum number of chains that run at once."""
    retries: int = 1
    """Maximum number of retries after failures of infrastructure."""
    on_event: OnEvent | None = None
    handles: MutableMapping[str, ChainHandle] | None = None
    """Filled with the running chains, by id."""
    on_trajectory: Callable[[Trajectory], None] | None = None
    """Called with every chain once its record is final."""


Order = Literal["completion", "admission"]
"""`completion`: each group as soon as it is finished. `admission`: in the order of the plans."""

RETRY_SECONDS = 0.5
"""Wait before the first retry; doubled at each further one."""


@asynccontextmanager
async def stream_groups(
    plans: Iterable[GroupPlan] | AsyncIterable[GroupPlan],
    schedule: Schedule,
    *,
    order: Order = "completion",
    max_in_flight: int | None = None,
) -> AsyncIterator[AsyncIterator[Group]]:
    """Run plans while the block runs, and yield their groups one by one as they finish.

        async with stream_groups(plans, schedule, max_in_flight=16) as groups:
            async for group in groups:
                save(group)

    Leaving the block cancels the chains that are still under way.

    Args:
        plans: Groups to run; drawn one by one when a slot is free, so they may be endless. An
            async iterable decides itself when the next group may start.
        schedule: Settings for running them.
        order: `"completion"`, or `"admission"` for the order of the plans.
        max_in_flight: Maximum number of groups that are begun and not yet taken from the stream;
            by default only the number of concurrent chains bounds it.
    """
    if max_in_flight is not None and max_in_flight < 1:
        raise ConfigError(f"max_in_flight must be at least 1, got {max_in_flight}")
    ready = _Ready(order, max_in_flight)
    with one_error():
        async with TaskGroup() as tasks:
            producer = tasks.create_task(_produce(plans, schedule, ready))
            try:
                yield ready
            finally:
                producer.cancel()


async def run_groups(plans: Sequence[GroupPlan], schedule: Schedule) -> list[Group]:
    """Run all chains of all plans and return the groups in the order of the plans."""
    async with stream_groups(plans, schedule, order="admission") as groups:
        return [group async for group in groups]


async def _produce(
    plans: Iterable[GroupPlan] | AsyncIterable[GroupPlan], schedule: Schedule, ready: "_Ready"
) -> None:
    chains = _ChainRuns(schedule, ready)
    number = 0
    async with TaskGroup() as tasks, aclosing(_drawn(plans, chains, ready)) as drawn:
        async for plan, asked_at in drawn:
            for index in range(plan.size + plan.spares):
                await chains.places.acquire()
                tasks.create_task(chains.run(plan, number, index, asked_at))
            number += 1
    ready.end()


async def _drawn(
    plans: Iterable[GroupPlan] | AsyncIterable[GroupPlan], chains: "_ChainRuns", ready: "_Ready"
) -> AsyncGenerator[tuple[GroupPlan, float]]:
    """Draw plans, each when a slot is free so that it is up to date, with the time of request."""
    await ready.wait_for_slot()
    if isinstance(plans, AsyncIterable):
        async for plan in plans:
            yield plan, chains.clock.now()
            await ready.wait_for_slot()
    else:
        started_at = chains.clock.now()
        for plan in plans:
            yield plan, started_at
            await ready.wait_for_slot()


class _Ready:
    """Queue of finished groups, until the consumer takes them."""

    def __init__(self, order: Order, max_in_flight: int | None) -> None:
        self._slots = Semaphore(max_in_flight) if max_in_flight is not None else None
        self._groups: Queue[Group | None] = Queue()
        self._held: dict[int, Group] | None = {} if order == "admission" else None
        """Finished groups that wait for those admitted before them."""
        self._next = 0

    async def wait_for_slot(self) -> None:
        """Wait until another group may be started."""
        if self._slots is not None:
            await self._slots.acquire()

    def put(self, number: int, group: Group) -> None:
        """Add the group of the plan with this number."""
        if self._held is None:
            self._groups.put_nowait(group)
            return
        self._held[number] = group
        while self._next in self._held:
            self._groups.put_nowait(self._held.pop(self._next))
            self._next += 1

    def end(self) -> None:
        """Mark the end: no group will follow."""
        self._groups.put_nowait(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Group:
        group = await self._groups.get()
        if group is None:
            self.end()  # for the next call of __anext__
            raise StopAsyncIteration
        if self._slots is not None:
            self._slots.release()
        return group


class _OpenGroup:
    """A group whose chains are under way, and which of them it keeps."""

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self._handles: dict[int, ChainHandle] = {}
        self._ended: dict[int, Trajectory] = {}
        self._order: list[int] = []
        """Chains in the order in which they ended."""

    def begin(self, index: int, handle: ChainHandle) -> None:
        """Add a chain; it is surplus already if the group has what it needs."""
        self._handles[index] = handle
        self._stop_surplus()

    def end(self, index: int, trajectory: Trajectory) -> None:
        """Add a chain's record, and stop those that are not needed any more."""
        self._ended[index] = trajectory
        self._order.append(index)
        self._stop_surplus()

    @property
    def complete(self) -> bool:
        """Whether every chain has ended."""
        return len(self._ended) == self._plan.size + self._plan.spares

    def finished(self) -> Group:
        """Return the group, with the chains that it does not keep as surplus."""
        kept = self._kept()
        if kept is None or not self._plan.spares:
            return Group.of([self._ended[index] for index in self._order])
        return Group.of(
            [self._ended[i] if i in kept else _surplus(self._ended[i]) for i in self._order]
        )

    def _stop_surplus(self) -> None:
        kept = self._kept() if self._plan.spares else None
        for index, handle in self._handles.items() if kept is not None else ():
            if index not in self._ended:
                handle.stop(StopReason.SURPLUS)

    def _kept(self) -> set[int] | None:
        """Return the chains to keep; None while that is not decided.

        Unless fast chains are favored, it is the first in number that did not fail: how long a
        chain takes has no influence.
        """
        plan, kept = self._plan, set[int]()
        for index in self._order if plan.favor_fast else range(plan.size + plan.spares):
            if index not in self._ended:
                return None
            if not self._ended[index].stop.verdict.failure:
                kept.add(index)
            if len(kept) == plan.size:
                return kept
        return None


def _surplus(trajectory: Trajectory) -> Trajectory:
    if trajectory.stop.verdict.failure:
        return trajectory
    return replace(trajectory, stop=StopReason.SURPLUS, score=None, error=None)


class _ChainRuns:
    """State that the chains of one stream share."""

    def __init__(self, schedule: Schedule, ready: _Ready) -> None:
        self.places = Semaphore(schedule.max_concurrent)
        self.clock = schedule.clock
        self._schedule = schedule
        self._ready = ready
        self._open: dict[str, _OpenGroup] = {}

    async def run(self, plan: GroupPlan, number: int, index: int, asked_at: float) -> None:
        """Run one chain to its final record; the last chain of a group completes the group."""
        runner = self._schedule.runner_of(plan.task)
        attempt = self._attempt(plan, index, asked_at)
        group = self._open.setdefault(plan.id, _OpenGroup(plan))
        group.begin(index, attempt.handle)
        handles = {} if self._schedule.handles is None else self._schedule.handles
        handles[attempt.chain_id] = attempt.handle
        try:
            trajectory = await self._attempts(attempt, runner)
        except CancelledError:
            self._stopped(attempt.chain_id, 0, StopReason.CANCELLED, None)
            raise
        finally:
            del handles[attempt.chain_id]
        group.end(index, trajectory)
        at_once = runner.group_reward is None and not plan.spares
        if at_once:
            self._report(trajectory)
        if group.complete:
            del self._open[plan.id]
            finished = await self._scored(group.finished(), plan, runner, asked_at)
            for member in () if at_once else finished.members:
                self._report(member)
            self._ready.put(number, finished)

    def _attempt(self, plan: GroupPlan, index: int, asked_at: float) -> Attempt:
        return Attempt(
            task=plan.task,
            group_id=plan.id,
            chain_id=chain_id(plan.id, index),
            seed=plan.seed.child("chain", index),
            asked_at=asked_at,
            on_event=self._schedule.on_event,
        )

    async def _attempts(self, attempt: Attempt, runner: Runner) -> Trajectory:
        """Run in the place acquired for it, and retry after failures of infrastructure."""
        while True:
            try:
                trajectory = await runner.harness.run(attempt)
            finally:
                self.places.release()
            failed = trajectory.stop.verdict.infrastructure
            if not failed or attempt.number >= self._schedule.retries:
                return trajectory
            attempt.handle.report("back-off before a retry")
            await self._schedule.clock.sleep(RETRY_SECONDS * 2**attempt.number)
            attempt = replace(attempt, number=attempt.number + 1)
            attempt.handle.retry()
            await self.places.acquire()

    async def _scored(
        self, group: Group, plan: GroupPlan, runner: Runner, asked_at: float
    ) -> Group:
        """Score a group by its group reward, if there is one, and report its chains."""
        if runner.group_reward is None:
            return group
        scoring = GroupScoring(
            reward=runner.group_reward,
            clock=self._schedule.clock,
            asked_at=asked_at,
            seconds=runner.group_reward_seconds,
            retries=self._schedule.retries,
        )
        group = await scoring.score(group, plan.seed)
        for member in group.members:
            self._report_score(member)
        return group

    def _report_score(self, trajectory: Trajectory) -> None:
        if trajectory.score is not None and self._schedule.on_event is not None:
            turns = len(trajectory.turns)
            event = Rewarded(chain_id=trajectory.chain_id, turn=turns, score=trajectory.score)
            call_user(self._schedule.on_event, event, "on_event")

    def _report(self, trajectory: Trajectory) -> None:
        turns = len(trajectory.turns)
        self._stopped(trajectory.chain_id, turns, trajectory.stop, trajectory.error)
        if self._schedule.on_trajectory is not None:
            call_user(self._schedule.on_trajectory, trajectory, "on_trajectory")

    def _stopped(self, chain: str, turn: int, stop: StopReason, error: str | None) -> None:
        if self._schedule.on_event is not None:
            event = Stopped(chain_id=chain, turn=turn, stop=stop, error=error)
            call_user(self._schedule.on_event, event, "on_event")
