import asyncio
from typing import ClassVar

from agentfly import Step, Task
from agentfly.environments.search import Bm25, Passage, RemoteRetriever, retrieval_server
from agentfly.errors import ConfigError
from agentfly.resources import EnvironmentManager, Pooling, SessionLimits, environment_server
from agentfly.types import EnvSpec, Seed


class Dice:
    # Options that clients of a server may choose. All others belong to the operator.
    client_options: ClassVar = {"sides": (6, 20)}

    def __init__(self, sides: int = 6) -> None:
        self.sides = sides

    def reset(self, task: Task, seed: Seed) -> str:
        self.random = seed.random()
        return "Roll."

    def step(self, action: str) -> Step:
        return Step(observation=str(self.random.randint(1, self.sides)))

    def close(self) -> None:
        pass


async def main() -> None:
    limits = SessionLimits(total=64, per_client=16, idle_seconds=60)
    async with (
        # The address carries the token: http://127.0.0.1:40123/?token=...
        environment_server(EnvSpec(Dice), limits=limits) as url,
        EnvironmentManager({Dice: Pooling(where=url)}) as pool,
    ):
        await roll(pool, sides=20)
        try:
            await roll(pool, sides=1000)
        except ConfigError as error:
            print(error)  # ... Clients may choose: sides: 6, 20


async def roll(pool: EnvironmentManager, sides: int) -> None:
    spec = EnvSpec(Dice, (("sides", sides),))
    soon = asyncio.get_running_loop().time() + 60
    async with pool.lease([spec], owner="me", deadline=soon) as leased:
        dice = leased[spec]
        await asyncio.to_thread(dice.reset, Task(id="t", messages=()), Seed(1))
        print((await asyncio.to_thread(dice.step, "roll")).observation)


asyncio.run(main())

# A search index, as `agentfly search serve` does.
index = Bm25.in_memory([Passage(id="7", title="Dogs", text="Dogs bark.")])
with retrieval_server(index) as url:
    remote = RemoteRetriever(url)
    assert remote.search("Who barks?", 3)[0].passage.id == "7"
    remote.close()
