"""Running chains of several sources side by side, those of each source by its own agent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentfly.agents import Agent
from agentfly.rollout import ChainHarness, GroupPlan, Schedule, run_groups
from agentfly.types import (
    Attempt,
    Clock,
    Context,
    Group,
    GroupReward,
    Harness,
    OnEvent,
    Score,
    Trajectory,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """How the chains of a run are run: those of each source by its own agent."""

    agents: Mapping[str, Agent]
    clock: Clock
    max_concurrent: int
    retries: int
    on_event: OnEvent | None = None

    async def run(
        self,
        plans: Sequence[GroupPlan],
        *,
        on_trajectory: Callable[[Trajectory], None],
        temperature: float | None = None,
    ) -> list[Group]:
        """Run all chains, at another temperature than the agents' own if one is given."""
        harnesses = {name: _harness(agent, temperature) for name, agent in self.agents.items()}
        rewards = {n: a.group_reward for n, a in self.agents.items() if a.group_reward is not None}
        schedule = Schedule(
            harness=_BySource(harnesses),
            clock=self.clock,
            max_concurrent=self.max_concurrent,
            retries=self.retries,
            group_reward=_GroupRewardBySource(rewards) if rewards else None,
            group_reward_seconds=max(a.limits.reward_seconds for a in self.agents.values()),
            on_event=self.on_event,
            on_trajectory=on_trajectory,
        )
        return await run_groups(plans, schedule)


@dataclass(frozen=True, slots=True)
class _BySource:
    harnesses: Mapping[str, Harness]

    async def run(self, attempt: Attempt) -> Trajectory:
        return await self.harnesses[attempt.task.source].run(attempt)


@dataclass(frozen=True, slots=True)
class _GroupRewardBySource:
    """Sources without a group reward keep the scores of their chains."""

    rewards: Mapping[str, GroupReward]

    @property
    def name(self) -> str:
        return "+".join(sorted({reward.name for reward in self.rewards.values()}))

    async def score_group(self, group: Group, context: Context) -> Sequence[Score | None]:
        reward = self.rewards.get(group.task.source)
        if reward is None:
            return [None] * len(group.members)
        return await reward.score_group(group, context)


def _harness(agent: Agent, temperature: float | None) -> Harness:
    if temperature is None:
        return ChainHarness(agent.setup())
    return ChainHarness(agent.setup(sampling=replace(agent.sampling, temperature=temperature)))
