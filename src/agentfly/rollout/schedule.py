"""Which groups to run, and how."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentfly.types import (
    Clock,
    GroupReward,
    Harness,
    OnEvent,
    Seed,
    Task,
    Trajectory,
    group_id,
)


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
class Runner:
    """How the chains of one source are run, and its groups scored."""

    harness: Harness
    group_reward: GroupReward | None = None
    group_reward_seconds: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How to run plans."""

    runner_of: Callable[[Task], Runner]
    """Each task's own runner: what one source waits for, no other source does."""
    clock: Clock
    max_concurrent: int
    """Maximum number of chains that run at once."""
    retries: int = 1
    """How often what failed for reasons of infrastructure is tried again."""
    on_event: OnEvent | None = None
    on_trajectory: Callable[[Trajectory], None] | None = None
    """Called with every chain whose record is final."""
