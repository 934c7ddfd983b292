import asyncio

from agentfly import Agent, ScriptedEngine, Step, Task
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.resources import EnvironmentManager, Pooling, environment_server
from agentfly.types import EnvSpec, Seed


class Counter:
    # Each in a process of its own; at most 4, one kept ready; 20 chains use one, after a reset.
    pooling = Pooling(where="process", max_instances=4, min_warm=1, max_uses=20, memory_mb=200)

    def reset(self, task: Task, seed: Seed) -> str:
        self.total = 0
        return "Say 'go' twice."

    def step(self, action: str) -> Step:
        self.total += action == "go"
        return Step(observation=f"{self.total} so far.", done=self.total == 2, reward=0.5)

    def close(self) -> None:
        pass


async def main() -> None:
    engine = ScriptedEngine(["go", "go"], tokenizer=ByteTokenizer(CHATML_TOKENS))

    # One manager for all agents of a program, with a budget over all kinds of environments.
    async with EnvironmentManager(memory_mb=2_000) as pool:
        result = await Agent(engine, environment=Counter, pool=pool).run({"id": "t"}, num_chains=6)
        assert result.rewards == (1.0,) * 6
        print(pool.snapshot().text)

    # The same environment behind HTTP: the manager's table overrides what the class says.
    async with (
        environment_server(EnvSpec(Counter)) as url,
        EnvironmentManager({Counter: Pooling(where=url)}) as pool,
    ):
        agent = Agent(engine, environment=Counter, pool=pool)
        assert (await agent.run({"id": "t"}, num_chains=2)).rewards == (1.0, 1.0)


if __name__ == "__main__":
    asyncio.run(main())
