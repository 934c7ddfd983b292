"""A built-in environment played to its end through the real agent, by a scripted player."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from agentfly import Agent
from agentfly.environments import Kit, Player, PlayerModel
from agentfly.types import Pool, Task, ToolCall, Trajectory


async def play(
    made: Kit,
    row: Mapping[str, Any],
    player: Player | None,
    pool: Pool | None = None,
    *,
    kind: str = "tools",
    write: Callable[[Sequence[ToolCall], str], str] | None = None,
) -> Trajectory:
    assert player is not None
    task = Task.from_row(row)
    model = PlayerModel(player=player, task=task, random=Random(task.id), write=write)
    agent = Agent(
        model,
        tools=made.tools,
        reward=made.reward,
        environment=made.environment,
        system_prompt=made.system_prompt,
        max_turns=made.max_turns,
        kind=kind,
        pool=pool,
    )
    async with agent:
        (trajectory,) = (await agent.run([dict(row)], retries=0)).trajectories
    return trajectory
