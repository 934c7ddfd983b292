"""An environment that misbehaves at random, and a whole run over many of it.

    python -m tests.resources.chaos_environments REPORT CHAINS INSTANCES

runs it as a program of its own, to be killed half-way.
"""

import asyncio
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentfly import Agent, Context, Limits, ScriptedEngine, Step, Task, Trajectory
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.rewards import reward
from agentfly.types import EnvSpec, Seed

FAULTS = ("crash", "hang_step", "hang_reset", "hang_close", "leak", "rubbish")
SHARE = 0.2
"""Of the chains, how many meet a fault."""
POOLING = Pooling(
    where="process",
    max_uses=40,
    memory_mb=150,
    make_seconds=90,
    reset_seconds=2.0,
    call_seconds=2.0,
    close_seconds=0.3,
)


class Chaotic:
    """Keeps the mark of its chain, and says which marks it has seen since the last reset."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.fault = ""
        self.ballast: list[bytes] = []

    def reset(self, task: Task, seed: Seed) -> str:
        rng = seed.random()
        self.marks = [task.id]
        self.fault = rng.choice(FAULTS) if rng.random() < SHARE else ""
        if self.fault == "hang_reset":
            time.sleep(1000)
        return f"YOU ARE {task.id}."

    def step(self, action: str) -> Any:
        self.marks.append(action)
        if self.fault == "crash":
            os._exit(7)
        if self.fault == "hang_step":
            time.sleep(1000)
        if self.fault == "rubbish":
            return object()
        if self.fault == "leak":
            self.ballast.append(os.urandom(1 << 20) * 120)
        return Step(observation=" ".join(self.marks), done=action == "bye")

    def close(self) -> None:
        if self.fault == "hang_close":
            time.sleep(1000)


@reward
def own_marks_only(env: Chaotic, task: Task, context: Context) -> float:
    """Say whether the instance has seen this chain and no other."""
    context.metadata["marks"] = env.marks
    return float(env.marks == [task.id, "hello", "bye"])


def agent(pool: EnvironmentManager) -> Agent:
    engine = ScriptedEngine(["hello", "bye"], tokenizer=ByteTokenizer(CHATML_TOKENS))
    return Agent(
        engine,
        environment=Chaotic,
        reward=own_marks_only,
        pool=pool,
        limits=Limits(seconds=500, lease_seconds=500),
    )


async def run_chains(
    pool: EnvironmentManager, chains: int, cancelled: float, ended: list[Trajectory]
) -> None:
    """Run chains through `Agent.run` into `ended`, a share of them cancelled at a random moment."""
    rng = random.Random(7)
    runner = agent(pool)

    async def chain(number: int) -> None:
        patience = rng.random() * 3 if rng.random() < cancelled else None
        try:
            async with asyncio.timeout(patience):
                ended.extend((await runner.run({"id": f"t{number}"}, seed=number)).trajectories)
        except TimeoutError:
            pass

    async with asyncio.TaskGroup() as group:
        for number in range(chains):
            group.create_task(chain(number))


def manager(instances: int) -> EnvironmentManager:
    return EnvironmentManager({Chaotic: replace(POOLING, max_instances=instances)})


async def main(report: Path, chains: int, instances: int) -> None:
    ended: list[Trajectory] = []

    def tell() -> None:
        report.write_text(f"{len(ended)}")

    async with manager(instances) as pool, asyncio.TaskGroup() as group:
        await pool.warm_up([EnvSpec(Chaotic)])
        run = group.create_task(run_chains(pool, chains, cancelled=0.1, ended=ended))
        while not run.done():
            tell()
            await asyncio.wait([run], timeout=0.05)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
