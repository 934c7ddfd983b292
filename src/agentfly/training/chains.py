"""Running chains of several sources side by side, those of each source by its own agent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentfly.agents import Agent
from agentfly.rollout import GroupPlan, Runner, Schedule, stream_groups
from agentfly.types import Clock, Group, OnEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRunner:
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
