"""A run's environments: one manager for all sources, bounded and warmed as the settings say."""

import asyncio

from agentfly import Agent, Source, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.config import EnvironmentSettings
from agentfly.engines import ScriptedEngine
from agentfly.training.assembly import open_environments
from agentfly.training.task_mix import TaskMix
from agentfly.types import EnvSpec


class Room:
    def reset(self, task: object, seed: object) -> str:
        return ""

    def step(self, action: str) -> str:
        return action.upper()

    def close(self) -> None:
        pass


@tool
def look(room: Room) -> str:
    """Look."""
    return room.step("look")


def task_mix() -> TaskMix:
    engine = ScriptedEngine(["done"], tokenizer=ByteTokenizer(CHATML_TOKENS))
    sources = [Source(name=name, agent=Agent(engine, tools=[look]), tasks=()) for name in "ab"]
    return TaskMix(sources=tuple(sources), tasks=())


async def test_the_warm_minimum_is_made_before_the_first_chain() -> None:
    async with open_environments(task_mix(), EnvironmentSettings(min_warm=3)) as manager:
        while manager.snapshot().stocks[0].warm < 3:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        (stock,) = manager.snapshot().stocks
        assert (stock.created, stock.max_instances) == (3, 256)


async def test_a_kind_has_no_more_instances_than_the_run_allows() -> None:
    async with open_environments(task_mix(), EnvironmentSettings(max_instances=2)) as manager:
        spec = EnvSpec(Room)
        deadline = asyncio.get_running_loop().time() + 60
        async with (
            manager.lease([spec], owner="one", deadline=deadline),
            manager.lease([spec], owner="two", deadline=deadline),
        ):
            (stock,) = manager.snapshot().stocks
            assert (stock.leased, stock.max_instances) == (2, 2)
