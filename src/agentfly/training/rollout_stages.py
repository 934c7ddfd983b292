"""The stages that run chains: sampling a step's groups, and evaluating on held-out tasks."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agentfly.agents import Agent
from agentfly.config import EvalSettings
from agentfly.errors import RunError
from agentfly.observe import Counting, TrajectoryWriter, evaluation_metrics
from agentfly.rollout import GroupPlan, Runner, Schedule, plan_groups, stream_groups
from agentfly.tasks import Ledger, Visit
from agentfly.training.health import has_trainable
from agentfly.types import (
    ANY_SCORE,
    Clock,
    Group,
    OnEvent,
    ScoreRange,
    Seed,
    Task,
    declared_range,
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

    def _schedule(self, temperature: float | None) -> Schedule:
        runners = {name: _runner(agent, temperature) for name, agent in self.agents.items()}
        return Schedule(
            runner_of=lambda task: runners[task.source],
            clock=self.clock,
            max_concurrent=self.max_concurrent,
            retries=self.retries,
            on_event=self.on_event,
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
        """Save a finished group, then record it in the ledger."""
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


def score_range(agent: Agent) -> ScoreRange:
    """Return what the chains of an agent can score; without a reward their steps' own decide."""
    if agent.reward is None:
        return ANY_SCORE
    own = declared_range(agent.reward)
    return own.plus(declared_range(agent.group_reward)) if agent.group_reward else own


def _emptied(file: Path) -> TrajectoryWriter:
    """Return a writer of an empty file, also where a killed run has left one."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.gz").unlink(missing_ok=True)
    return TrajectoryWriter(file)
