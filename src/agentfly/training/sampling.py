"""The stage that samples: tasks from the ledger become finished, saved groups."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agentfly.errors import RunError
from agentfly.observe import TrajectoryWriter
from agentfly.rollout import GroupPlan
from agentfly.tasks import Ledger, Visit
from agentfly.training.chains import ChainRunner
from agentfly.training.health import has_trainable
from agentfly.types import Group, Seed

MAX_ROUNDS = 10
"""How often groups without spread are replaced by new ones before a step takes what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What one step has sampled."""

    groups: list[Group]
    """What to learn from."""
    left_out: list[Group]
    """Groups without a chain that can be trained on, or without spread where that is asked for."""


@dataclass(slots=True, kw_only=True)
class Sampler:
    """Takes tasks from the ledger until a step has its groups."""

    chains: ChainRunner
    ledger: Ledger
    seed: Seed
    num_chains: int
    tasks_per_step: int
    replace_flat: bool
    """Whether groups without spread are replaced by new ones (dynamic sampling)."""
    check: Callable[[Sequence[Group]], None]
    """Ends the run if what was sampled is not fit to learn from."""
    on_chains: Callable[[int], None]
    finished: dict[str, Group] = field(default_factory=dict)
    """Groups that are complete and not yet trained on, those of a resumed run included: they are
    taken as they are when their turn comes."""

    async def sample(self, file: Path) -> Sampled:
        """Return the groups of one step, each saved to `file` as soon as it finished."""
        sampled = Sampled(groups=[], left_out=[])
        with TrajectoryWriter(file) as writer:
            for _ in range(MAX_ROUNDS if self.replace_flat else 1):
                missing = self.tasks_per_step - len(sampled.groups)
                if missing > 0:
                    groups = await self._round(missing, writer)
                    self.check([*sampled.groups, *sampled.left_out, *groups])
                    self._sort(groups, sampled)
        if self.replace_flat and not sampled.groups:
            raise RunError(
                f"none of {len(sampled.left_out)} groups had any spread in its rewards: the tasks "
                "are all too easy or too hard for the model, or the reward never differs. Choose "
                "other tasks, or an algorithm without dynamic sampling"
            )
        return sampled

    async def _round(self, count: int, writer: TrajectoryWriter) -> list[Group]:
        plans = [self._plan(visit) for visit in self.ledger.issue(count)]
        take = partial(self._take, writer)
        new = [plan for plan in plans if plan.id not in self.finished]
        for plan in plans:
            if plan.id in self.finished:  # complete before the run was resumed
                take(self.finished[plan.id])
        await self.chains.run(new, on_group=take)
        return [self.finished[plan.id] for plan in plans]

    def _take(self, writer: TrajectoryWriter, group: Group) -> None:
        """Save a finished group, then tell the ledger of it."""
        writer.write_group(group)
        self.finished[group.id] = group
        self.ledger.finish(group.id, Counter(member.stop for member in group.members))
        self.on_chains(len(group.members))

    def _plan(self, visit: Visit) -> GroupPlan:
        return GroupPlan(
            task=visit.task,
            visit=visit.number,
            size=self.num_chains,
            seed=self.seed.child("task", visit.task.id, visit.number),
        )

    def _sort(self, groups: Sequence[Group], into: Sampled) -> None:
        for group in groups:
            if not has_trainable(group):
                self.ledger.abandon(group.id, "no chain of it can be trained on")
                into.left_out.append(group)
            elif self.replace_flat and not group.has_spread:
                self.ledger.abandon(group.id, "no spread")
                into.left_out.append(group)
            else:
                into.groups.append(group)
