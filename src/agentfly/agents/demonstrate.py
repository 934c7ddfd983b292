"""Scripted players attempt tasks: demonstrations, baselines, and checks that tasks work."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from agentfly.agents.agent import Agent
from agentfly.agents.source_parts import SourceParts
from agentfly.chat.formats import CallFormat
from agentfly.environments import Player, PlayerModel
from agentfly.resources import EnvironmentManager
from agentfly.rollout import Limits
from agentfly.runtime.ordered import one_error
from agentfly.types import Seed, Task, Trajectory


async def demonstrate(
    parts: SourceParts,
    player: Player,
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    max_concurrent: int = 8,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Run the player once on each task, through the same loop as any model.

    The first mistake in a task, such as a row that its site can't use, ends the others, too.

    Such chains have no token ids: `agentfly sft` tokenizes them with `data.retokenize`.

    Args:
        parts: Tools, reward and environment, as returned by `resolve_source`.
        player: An expert, a gold path, or a random player.
        tasks: Tasks to attempt.
        seed: Seed of the player's and the environments' choices.
        max_concurrent: Maximum number of tasks attempted at once.
        on_trajectory: Called with each chain as it ends.
    """
    places = asyncio.Semaphore(max_concurrent)
    async with EnvironmentManager() as pool:

        async def attempt(task: Task) -> Trajectory:
            async with places:
                agent = _agent(parts, player, task, Seed(seed).child("player", task.id), pool)
                result = await agent.run(task, seed=seed, retries=0)
            trajectory = result.trajectories[0]
            if on_trajectory is not None:
                on_trajectory(trajectory)
            return trajectory

        with one_error():
            async with asyncio.TaskGroup() as group:
                attempts = [group.create_task(attempt(task)) for task in tasks]
    return [attempt.result() for attempt in attempts]


def _agent(
    parts: SourceParts, player: Player, task: Task, seed: Seed, pool: EnvironmentManager
) -> Agent:
    call_format = _call_format(parts)
    model = PlayerModel(
        player=player,
        task=task,
        random=Random(seed.value),
        write=call_format.write if call_format else None,
    )
    return Agent(
        model,
        tools=parts.tools,
        reward=parts.reward,
        kind=parts.kind,
        system_prompt=parts.system_prompt,
        environment=parts.environment,
        limits=Limits(max_turns=parts.max_turns or Limits().max_turns),
        pool=pool,
    )


def _call_format(parts: SourceParts) -> CallFormat | None:
    own = getattr(parts.kind, "format", None)
    found: CallFormat | None = own([tool.spec for tool in parts.tools]) if own else None
    return found
