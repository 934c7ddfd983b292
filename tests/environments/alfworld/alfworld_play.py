"""Playing one task to its end, through the real agent, tools and reward."""

from collections.abc import Generator
from random import Random

from agentfly import Agent
from agentfly.environments import Kit, Player, PlayerModel, Say, Scene, call
from agentfly.environments.alfworld import ALFWORLD, AlfworldOptions
from agentfly.environments.alfworld.source.rows import Row
from agentfly.types import Pool, Task, Trajectory


def kit(**options: object) -> Kit:
    return ALFWORLD.make(AlfworldOptions(**options))  # type: ignore[arg-type]


def commanding(*commands: str) -> Player:
    """Return a player that gives these commands whatever it is shown, and stops."""

    def player(scene: Scene) -> Generator[Say, str, None]:
        for command in commands:
            yield call("act", command=command)
        yield Say("That is all.")

    return player


async def play(made: Kit, row: Row, player: Player | None, pool: Pool | None = None) -> Trajectory:
    assert player is not None
    model = PlayerModel(player=player, task=Task.from_row(row), random=Random(0))
    agent = Agent(
        model,
        tools=made.tools,
        reward=made.reward,
        environment=made.environment,
        system_prompt=made.system_prompt,
        max_turns=made.max_turns,
        pool=pool,
    )
    async with agent:
        (trajectory,) = (await agent.run([dict(row)], retries=0)).trajectories
    assert trajectory.error is None, trajectory.error
    return trajectory
