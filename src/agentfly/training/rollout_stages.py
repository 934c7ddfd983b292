"""The stages that run chains: sampling a step's groups, and evaluating on held-out tasks."""

import time
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from agentfly.agents import Agent
from agentfly.agents.source import score_range
from agentfly.config import EvalSettings
from agentfly.errors import RunError
from agentfly.observe import Counting, TrajectoryWriter, evaluation_metrics
from agentfly.rollout import GroupPlan, Runner, Schedule, plan_groups, stream_groups
from agentfly.tasks import Ledger, Visit
from agentfly.training.health import has_trainable
from agentfly.types import (
    ChainHandle,
    Clock,
    Group,
    OnEvent,
    Seed,
    Task,
)

MAX_ROUNDS = 10
"""Rounds in which groups without spread are replaced before a step takes what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRunner:
    """Runs the chains of several sources side by side, each source with its own agent."""

    agents: Mapping[str, Agent]
    clock: Clock
    max_concurrent: int
    retries: int
    on_event: OnEvent | None = None
    handles: dict[str, ChainHandle] = field(default_factory=dict)
    """Chains that are running, by id."""

    async def run(
        self,
        plans: Sequence[GroupPlan],
        *,
        on_group: Callable[[Group], None],
        temperature: float | None = None,
    ) -> list[Group]:
        """Run all plans, and call `on_group` with each group as it finishes.

        Args:
            plans: Their order is that of the groups returned.
            on_group: Saves and counts.
            temperature: Of sampling, instead of the agents' own.
        """
        groups: dict[str, Group] = {}
        async with stream_groups(plans, self._schedule(temperature)) as finished:
            async for group in finished:
                on_group(group)
                groups[group.id] = group
        return [groups[plan.id] for plan in plans]

    def stream(
        self, plans: AsyncIterable[GroupPlan]
    ) -> AbstractAsyncContextManager[AsyncIterator[Group]]:
        """Run plans as they come while the block runs, and yield each group as it finishes."""
        return stream_groups(plans, self._schedule(None))

    def _schedule(self, temperature: float | None) -> Schedule:
        runners = {name: _runner(agent, temperature) for name, agent in self.agents.items()}
        return Schedule(
            runner_of=lambda task: runners[task.source],
            clock=self.clock,
            max_concurrent=self.max_concurrent,
            retries=self.retries,
            on_event=self.on_event,
            handles=self.handles,
        )


def _runner(agent: Agent, temperature: float | None) -> Runner:
    if temperature is None:
        return agent.runner()
    return agent.runner(sampling=replace(agent.sampling, temperature=temperature))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The groups that one step has sampled."""

    groups: list[Group]
    """Groups to train on."""
    left_out: list[Group]
    """Groups without a chain that can be trained on, or without spread where that is asked for."""
    seconds: float
    """Time in which they were sampled."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the sampler itself, under the names that `METRICS` explains."""

    @property
    def all(self) -> list[Group]:
        """All groups, also those that are not learned from."""
        return [*self.groups, *self.left_out]


class Sampler(Protocol):
    """Stage that gives each step its groups."""

    @property
    def finished(self) -> Mapping[str, Group]:
        """Groups that are complete and not yet trained on, by id: a checkpoint holds them."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Sample while the block runs, as far as that is done between steps."""

    async def sample(self, file: Path) -> Sampled:
        """Return the groups of the next step, saved to `file`."""

    def trained(self, sampled: Sampled) -> None:
        """Forget the groups of a step that was trained."""

    def published(self, version: int) -> None:
        """Note that engines sample from this version of the weights from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlanner:
    """Plans a group for each visit, and decides which finished groups are learned from."""

    ledger: Ledger
    seed: Seed
    num_chains: int
    replace_flat: bool
    """Whether groups without spread are replaced by new ones (dynamic sampling)."""
    check: Callable[[Sequence[Group]], None]
    """Ends the run if what was sampled is not fit to learn from."""
    on_chains: Callable[[int], None]
    spare_chains: int = 0
    favor_fast: bool = False

    def plan(self, visit: Visit) -> GroupPlan:
        """Return the chains to run for a visit."""
        return GroupPlan(
            task=visit.task,
            visit=visit.number,
            size=self.num_chains,
            seed=self.seed.child("task", visit.task.id, visit.number),
            spares=self.spare_chains,
            favor_fast=self.favor_fast,
        )

    def finish(self, group: Group) -> None:
        """Record a finished group in the ledger."""
        self.ledger.finish(group.id, Counter(member.stop for member in group.members))
        self.on_chains(len(group.members))

    def leaves_out(self, group: Group) -> str | None:
        """Return why a group is not learned from; None if it is."""
        if not has_trainable(group):
            return "no chain of it can be trained on"
        return "no spread" if self.replace_flat and not group.has_spread else None

    def sort(self, groups: Iterable[Group]) -> tuple[list[Group], list[Group]]:
        """Return the groups to learn from and the others, which the ledger abandons."""
        kept, left_out = [], []
        for group in groups:
            if reason := self.leaves_out(group):
                self.ledger.abandon(group.id, reason)
                left_out.append(group)
            else:
                kept.append(group)
        return kept, left_out

    def require_some(self, kept: Sequence[Group], left_out: Sequence[Group]) -> None:
        """Raise RunError if no group is left although those without spread were replaced."""
        if self.replace_flat and not kept:
            raise RunError(
                f"none of {len(left_out)} groups had any spread in its rewards: the tasks "
                "are all too easy or too hard for the model, or the reward never differs. Choose "
                "other tasks, or set algorithm.dynamic_sampling = false"
            )


@dataclass(slots=True, kw_only=True)
class StepSampler:
    """Samples the groups of a step when it begins: the synchronous loop."""

    chains: ChainRunner
    planner: GroupPlanner
    tasks_per_step: int
    finished: dict[str, Group] = field(default_factory=dict)
    """Groups that are complete and not yet trained on, those of a resumed run included: they are
    taken as they are when their turn comes."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Do nothing between steps."""
        return nullcontext()

    async def sample(self, file: Path) -> Sampled:
        """Return the groups of one step, each saved to `file` as soon as it finished."""
        started = time.monotonic()
        groups: list[Group] = []
        left_out: list[Group] = []
        with TrajectoryWriter(file) as writer:
            for _ in range(MAX_ROUNDS if self.planner.replace_flat else 1):
                missing = self.tasks_per_step - len(groups)
                if missing > 0:
                    new = await self._round(missing, writer)
                    self.planner.check([*groups, *left_out, *new])
                    kept, others = self.planner.sort(new)
                    groups += kept
                    left_out += others
        self.planner.require_some(groups, left_out)
        return Sampled(groups=groups, left_out=left_out, seconds=time.monotonic() - started)

    async def _round(self, count: int, writer: TrajectoryWriter) -> list[Group]:
        plans = [self.planner.plan(visit) for visit in self.planner.ledger.issue(count)]
        take = partial(self._take, writer)
        new = [plan for plan in plans if plan.id not in self.finished]
        for plan in plans:
            if plan.id in self.finished:  # complete before the run was resumed
                take(self.finished[plan.id])
        await self.chains.run(new, on_group=take)
        return [self.finished[plan.id] for plan in plans]

    def _take(self, writer: TrajectoryWriter, group: Group) -> None:
        """Save a finished group, then record it in the ledger."""
        writer.write_group(group)
        self.finished[group.id] = group
        self.planner.finish(group)

    def trained(self, sampled: Sampled) -> None:
        """Forget all groups: what finished belonged to this step."""
        del sampled
        self.finished.clear()

    def published(self, version: int) -> None:
        """Do nothing: nothing is sampled between steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Attempts every held-out task, each time with the same seeds."""

    chains: ChainRunner
    tasks: Sequence[Task]
    settings: EvalSettings
    seed: Seed
    on_chains: Callable[[int], None]

    @property
    def num_chains(self) -> int:
        """Number of chains of one evaluation."""
        return len(self.tasks) * self.settings.num_chains

    def metrics(self, groups: Sequence[Group]) -> dict[str, float]:
        """Measure an evaluation, by what each source's reward can be."""
        agents = self.chains.agents
        counting = Counting(
            ranges={source: score_range(agent) for source, agent in agents.items()},
            time_limit_reward=self.settings.time_limit_reward,
        )
        return evaluation_metrics(groups, counting)

    def due(self, step: int) -> bool:
        """Return whether to evaluate after a step."""
        return self.settings.every > 0 and step % self.settings.every == 0

    async def evaluate(self, file: Path) -> list[Group]:
        """Run the chains, and save each group to `file` as it finishes."""
        plans = plan_groups(self.tasks, num_chains=self.settings.num_chains, seed=self.seed)
        with _emptied(file) as writer:

            def take(group: Group) -> None:
                writer.write_group(group)
                self.on_chains(len(group.members))

            return await self.chains.run(
                plans, on_group=take, temperature=self.settings.temperature
            )


def _emptied(file: Path) -> TrajectoryWriter:
    """Return a writer of an empty file, also where a killed run has left one."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.gz").unlink(missing_ok=True)
    return TrajectoryWriter(file)
