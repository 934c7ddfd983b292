"""How many leases a second the manager gives while 1,000 chains wait in line.

Each chain leases, resets nothing, gives back and stands in line again, so that all but those who
hold one of 32 instances wait at any moment. The instances do nothing: what is measured is the
manager. `one kind` is a line of chains that need the same; `three kinds` mixes chains that need one
of two kinds with chains that need both.

    python -m benchmarks.leases
"""

import asyncio
import math
import time
from collections.abc import Sequence

from agentfly.resources import EnvironmentManager, Pooling
from agentfly.types import EnvSpec

CHAINS = 1000
ROUNDS = 10
INSTANCES = 32


class Idle:
    """An environment that costs nothing."""

    def reset(self, task: object, seed: object) -> str:
        del task, seed
        return ""

    def close(self) -> None:
        pass


class Idler(Idle):
    """Another kind."""


ONE_KIND = [[EnvSpec(Idle)]]
THREE_KINDS = [[EnvSpec(Idle)], [EnvSpec(Idler)], [EnvSpec(Idle), EnvSpec(Idler)]]


def lease_rates() -> dict[str, float]:
    """Return leases per second and how long a chain waits in line."""
    rate, wait = asyncio.run(_measure(ONE_KIND))
    mixed, _ = asyncio.run(_measure(THREE_KINDS))
    return {"leases_per_s": rate, "leases_per_s_mixed": mixed, "lease_wait_ms_p50": wait}


async def _measure(wishes: Sequence[Sequence[EnvSpec]]) -> tuple[float, float]:
    pooling = Pooling(max_instances=INSTANCES, max_uses=CHAINS * ROUNDS)
    async with EnvironmentManager({Idle: pooling, Idler: pooling}) as pool:
        await _run(pool, wishes, rounds=1)
        started = time.perf_counter()
        await _run(pool, wishes, rounds=ROUNDS)
        seconds = time.perf_counter() - started
        wait = pool.snapshot().stocks[0].lease_p50 or 0.0
    return CHAINS * ROUNDS / seconds, wait * 1000


async def _run(pool: EnvironmentManager, wishes: Sequence[Sequence[EnvSpec]], rounds: int) -> None:
    async def chain(number: int) -> None:
        specs = wishes[number % len(wishes)]
        for _ in range(rounds):
            async with pool.lease(specs, owner=str(number), deadline=math.inf):
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as chains:
        for number in range(CHAINS):
            chains.create_task(chain(number))


if __name__ == "__main__":
    for name, value in lease_rates().items():
        print(f"  {name:20} {value:10.4g}")
