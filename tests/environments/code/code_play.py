"""Playing a task of the environment `code` to its end, through the real agent, tools and reward."""

from collections.abc import Generator, Mapping
from typing import Any

from tests.environments import kit_play

from agentfly.chat.formats import code_format
from agentfly.environments import Kit, Player, Say, Scene
from agentfly.environments.code import CODE, CodeOptions
from agentfly.types import Pool, Trajectory


def saying(*turns: Say) -> Player:
    """Return a player that does these things whatever it is shown."""

    def player(scene: Scene) -> Generator[Say, str, None]:
        for turn in turns:  # noqa: UP028 - a tuple can not be sent anything
            yield turn

    return player


def kit(**options: Any) -> Kit:
    return CODE.make(CodeOptions(**options))


async def play(
    made: Kit,
    row: Mapping[str, Any],
    player: Player | None = None,
    *,
    kind: str = "tools",
    pool: Pool | None = None,
) -> Trajectory:
    write = code_format(tool=made.tools[0].spec.name).write if kind == "code" else None
    return await kit_play.play(made, row, player or made.expert, pool, kind=kind, write=write)


def observations(trajectory: Trajectory) -> list[str]:
    return [result.observation for turn in trajectory.turns for result in turn.results]
