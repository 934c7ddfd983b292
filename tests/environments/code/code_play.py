"""Playing a task of the environment `code` to its end, through the real agent, tools and reward."""

from collections.abc import Generator, Mapping
from random import Random
from typing import Any

from agentfly import Agent
from agentfly.chat.formats import code_format
from agentfly.environments import Kit, Player, PlayerModel, Say, Scene
from agentfly.environments.code import CODE, CodeOptions
from agentfly.types import Pool, Task, Trajectory


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
    player = player or made.expert
    assert player is not None
    write = code_format(tool=made.tools[0].spec.name).write if kind == "code" else None
    model = PlayerModel(player=player, task=Task.from_row(row), random=Random(0), write=write)
    agent = Agent(
        model,
        tools=made.tools,
        reward=made.reward,
        system_prompt=made.system_prompt,
        max_turns=made.max_turns,
        kind=kind,
        pool=pool,
    )
    async with agent:
        (trajectory,) = (await agent.run([row], retries=0)).trajectories
    return trajectory


def observations(trajectory: Trajectory) -> list[str]:
    return [result.observation for turn in trajectory.turns for result in turn.results]
