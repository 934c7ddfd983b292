"""Letting a scripted player attempt tasks: demonstrations, baselines and proofs that tasks work."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from agentfly.agents.agent import Agent
from agentfly.agents.outfit import Outfit
from agentfly.chat.formats import CallFormat
from agentfly.environments import Player, PlayerModel
from agentfly.resources import EnvironmentManager
from agentfly.rollout import Limits
from agentfly.types import Seed, Task, Trajectory


async def demonstrate(
    outfit: Outfit,
    player: Player,
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    max_concurrent: int = 8,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Let the player attempt each task once, through the same loop as any model.

    Such chains have no token ids: `agentfly sft` writes them as a model would have, with
    `data.retokenize`.

    Args:
        outfit: Tools, reward and environment, as `fit_out` finds them.
        player: An expert, a gold path, or a random one.
        tasks: What to attempt.
        seed: Of the player's and the environments' choices.
        max_concurrent: How many tasks are under way at once.
        on_trajectory: Called with each chain as it ends.
    """
    places = asyncio.Semaphore(max_concurrent)
    async with EnvironmentManager() as pool:

        async def attempt(task: Task) -> Trajectory:
            async with places:
                agent = _agent(outfit, player, task, Seed(seed).child("player", task.id), pool)
                result = await agent.run(task, seed=seed, retries=0)
            trajectory = result.trajectories[0]
            if on_trajectory is not None:
                on_trajectory(trajectory)
            return trajectory

        async with asyncio.TaskGroup() as group:
            attempts = [group.create_task(attempt(task)) for task in tasks]
    return [attempt.result() for attempt in attempts]


def _agent(
    outfit: Outfit, player: Player, task: Task, seed: Seed, pool: EnvironmentManager
) -> Agent:
    call_format = _call_format(outfit)
    model = PlayerModel(
        player=player,
        task=task,
        random=Random(seed.value),
        write=call_format.write if call_format else None,
    )
    return Agent(
        model,
        tools=outfit.tools,
        reward=outfit.reward,
        kind=outfit.kind,
        system_prompt=outfit.system_prompt,
        environment=outfit.environment,
        limits=Limits(max_turns=outfit.max_turns or Limits().max_turns),
        pool=pool,
    )


def _call_format(outfit: Outfit) -> CallFormat | None:
    own = getattr(outfit.kind, "format", None)
    found: CallFormat | None = own([tool.spec for tool in outfit.tools]) if own else None
    return found
