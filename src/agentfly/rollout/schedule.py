"""Running many chains at once: admitted in order, each on its own, grouped by id.

    admission (in order) ──► max_concurrent workers ──► chain ──► retry on infrastructure failure
                                                          │
                              last member of its group ──► group reward ──► Group

No chain waits for another. A worker that ends a chain takes the next one at once.
"""

from asyncio import TaskGroup
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from agentfly.rollout.group_scoring import score_group
from agentfly.runtime.ordered import one_error
from agentfly.types import (
    Attempt,
    Clock,
    Group,
    GroupReward,
    Harness,
    OnEvent,
    Seed,
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


@dataclass(slots=True, kw_only=True)
class Schedule:
    """How to run plans."""

    harness: Harness
    clock: Clock
    max_concurrent: int
    retries: int = 1
    """How often a chain that failed for reasons of infrastructure is tried again."""
    group_reward: GroupReward | None = None
    on_event: OnEvent | None = None
    on_trajectory: Callable[[Trajectory], None] | None = None
    """Called with every finished chain, as soon as its score is final."""


async def run_groups(plans: Sequence[GroupPlan], schedule: Schedule) -> list[Group]:
    """Run all chains of all plans and return the groups in the order of the plans."""
    run = _Run(plans, schedule)
    workers = min(schedule.max_concurrent, sum(plan.size for plan in plans))
    with one_error():
        async with TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(run.work(tasks))
    return [run.groups[plan.id] for plan in plans]


@dataclass(slots=True)
class _Run:
    plans: Sequence[GroupPlan]
    schedule: Schedule
    groups: dict[str, Group] = field(default_factory=dict)
    _members: dict[str, dict[int, Trajectory]] = field(default_factory=dict)
    _queue: Iterator[tuple[GroupPlan, int]] = field(init=False)
    _asked_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._queue = ((plan, index) for plan in self.plans for index in range(plan.size))
        self._asked_at = self.schedule.clock.now()

    async def work(self, tasks: TaskGroup) -> None:
        """Take chains in order of admission until there are none left."""
        for plan, index in self._queue:
            trajectory = await self._run_chain(plan, index)
            members = self._members.setdefault(plan.id, {})
            members[index] = trajectory
            if self.schedule.group_reward is None:
                self._tell(trajectory)
            if len(members) == plan.size:
                # Not awaited here: a slow group reward must not hold back the next chain.
                tasks.create_task(self._complete(plan))

    async def _run_chain(self, plan: GroupPlan, index: int) -> Trajectory:
        attempt = Attempt(
            task=plan.task,
            group_id=plan.id,
            chain_id=chain_id(plan.id, index),
            seed=plan.seed.child("chain", index),
            asked_at=self._asked_at,
            on_event=self.schedule.on_event,
        )
        trajectory = await self.schedule.harness.run(attempt)
        while trajectory.stop.verdict.infrastructure and attempt.number < self.schedule.retries:
            await self.schedule.clock.sleep(RETRY_SECONDS * 2**attempt.number)
            attempt = replace(attempt, number=attempt.number + 1)
            trajectory = await self.schedule.harness.run(attempt)
        return trajectory

    async def _complete(self, plan: GroupPlan) -> None:
        members = self._members.pop(plan.id)
        group = Group(
            id=plan.id, task=plan.task, members=tuple(members[i] for i in range(plan.size))
        )
        if self.schedule.group_reward is not None:
            group = await score_group(
                self.schedule.group_reward, group, seed=plan.seed, clock=self.schedule.clock
            )
            for member in group.members:
                self._tell(member)
        self.groups[plan.id] = group

    def _tell(self, trajectory: Trajectory) -> None:
        if self.schedule.on_trajectory is not None:
            self.schedule.on_trajectory(trajectory)
