"""Running many chains at once: admitted in order, each on its own, grouped by id.

    admission (in order) ──► one of max_concurrent places ──► chain ──► place free for the next
                                        ▲                       │
                                        └── back-off ◄── failure of infrastructure
                              last member of its group ──► group reward ──► Group

No chain waits for another: a place is held by running chains only, not by those that wait to be
tried again or to be scored with their group.
"""

from asyncio import CancelledError, Semaphore, TaskGroup
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agentfly.rollout.group_scoring import GroupScoring
from agentfly.rollout.tell import tell
from agentfly.runtime.ordered import one_error
from agentfly.types import (
    Attempt,
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

RETRY_SECONDS = 0.5
"""Wait before the first retry; doubled at each further one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Which task to visit, and with how many chains."""

    task: Task
    visit: int
    size: int
    seed: Seed
    """Seed of this visit."""

    @property
    def id(self) -> str:
        """The group's id."""
        return group_id(self.task.id, self.visit)


def plan_groups(tasks: Iterable[Task], *, num_chains: int, seed: Seed) -> list[GroupPlan]:
    """Plan one group per task; a task that comes twice gets two visits, so ids stay distinct."""
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
class Schedule:
    """How to run plans."""

    harness: Harness
    clock: Clock
    max_concurrent: int
    retries: int = 1
    """How often what failed for reasons of infrastructure is tried again."""
    group_reward: GroupReward | None = None
    group_reward_seconds: float = 300.0
    on_event: OnEvent | None = None
    on_trajectory: Callable[[Trajectory], None] | None = None
    """Called with every chain whose record is final."""


async def run_groups(plans: Sequence[GroupPlan], schedule: Schedule) -> list[Group]:
    """Run all chains of all plans and return the groups in the order of the plans."""
    run = _Run(schedule)
    with one_error():
        async with TaskGroup() as tasks:
            for plan in plans:
                for index in range(plan.size):
                    await run.places.acquire()
                    tasks.create_task(run.chain(plan, index))
    return [run.groups[plan.id] for plan in plans]


class _Run:
    """What the chains of one run share."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.places = Semaphore(schedule.max_concurrent)
        self.groups: dict[str, Group] = {}
        self._members: dict[str, dict[int, Trajectory]] = {}
        self._asked_at = schedule.clock.now()

    async def chain(self, plan: GroupPlan, index: int) -> None:
        """Run one chain to its final record; the last one of a group completes the group."""
        attempt = self._attempt(plan, index)
        try:
            trajectory = await self._run(attempt)
        except CancelledError:
            self._stopped(attempt.chain_id, 0, StopReason.CANCELLED, None)
            raise
        members = self._members.setdefault(plan.id, {})
        members[index] = trajectory
        if self.schedule.group_reward is None:
            self._tell(trajectory)
        if len(members) == plan.size:
            await self._complete(plan)

    def _attempt(self, plan: GroupPlan, index: int) -> Attempt:
        return Attempt(
            task=plan.task,
            group_id=plan.id,
            chain_id=chain_id(plan.id, index),
            seed=plan.seed.child("chain", index),
            asked_at=self._asked_at,
            on_event=self.schedule.on_event,
        )

    async def _run(self, attempt: Attempt) -> Trajectory:
        """Run in the place that was taken for it, and again after failures of infrastructure."""
        while True:
            try:
                trajectory = await self.schedule.harness.run(attempt)
            finally:
                self.places.release()
            failed = trajectory.stop.verdict.infrastructure
            if not failed or attempt.number >= self.schedule.retries:
                return trajectory
            await self.schedule.clock.sleep(RETRY_SECONDS * 2**attempt.number)
            attempt = replace(attempt, number=attempt.number + 1)
            await self.places.acquire()

    async def _complete(self, plan: GroupPlan) -> None:
        members = self._members.pop(plan.id)
        group = Group(
            id=plan.id, task=plan.task, members=tuple(members[i] for i in range(plan.size))
        )
        if self.schedule.group_reward is not None:
            group = await self._scoring(self.schedule.group_reward).score(group, plan.seed)
            for member in group.members:
                self._rewarded(member)
                self._tell(member)
        self.groups[plan.id] = group

    def _scoring(self, reward: GroupReward) -> GroupScoring:
        return GroupScoring(
            reward=reward,
            clock=self.schedule.clock,
            asked_at=self._asked_at,
            seconds=self.schedule.group_reward_seconds,
            retries=self.schedule.retries,
        )

    def _rewarded(self, trajectory: Trajectory) -> None:
        if trajectory.score is not None and self.schedule.on_event is not None:
            turns = len(trajectory.turns)
            event = Rewarded(chain_id=trajectory.chain_id, turn=turns, score=trajectory.score)
            tell(self.schedule.on_event, event, "on_event")

    def _tell(self, trajectory: Trajectory) -> None:
        turns = len(trajectory.turns)
        self._stopped(trajectory.chain_id, turns, trajectory.stop, trajectory.error)
        if self.schedule.on_trajectory is not None:
            tell(self.schedule.on_trajectory, trajectory, "on_trajectory")

    def _stopped(self, chain: str, turn: int, stop: StopReason, error: str | None) -> None:
        if self.schedule.on_event is not None:
            event = Stopped(chain_id=chain, turn=turn, stop=stop, error=error)
            tell(self.schedule.on_event, event, "on_event")
