"""Playing one task to its end, through the real agent, tools and reward."""

from collections.abc import Generator

from tests.environments import kit_play

from agentfly.environments import Kit, Player, Say, Scene, call
from agentfly.environments.alfworld import ALFWORLD, AlfworldOptions
from agentfly.environments.alfworld.tasks import Row
from agentfly.types import Pool, Trajectory


def kit(**options: object) -> Kit:
    return ALFWORLD.make(AlfworldOptions(**options))  # type: ignore[arg-type]


def commanding(*commands: str) -> Player:
    """Return a player that gives these commands, independent of observations, and stops."""

    def player(scene: Scene) -> Generator[Say, str, None]:
        for command in commands:
            yield call("act", command=command)
        yield Say("That is all.")

    return player


async def play(made: Kit, row: Row, player: Player | None, pool: Pool | None = None) -> Trajectory:
    trajectory = await kit_play.play(made, row, player, pool)
    assert trajectory.error is None, trajectory.error
    return trajectory
