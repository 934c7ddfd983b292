"""Up to 4,000 concurrent chains over 1,000 environments, locally and on a Ray cluster, and beyond.

Each chain has three turns whose generation takes 6 to 12 s and, between them, two calls of a tool
with an environment, which it holds from the first call to its end. There are four chains for each
environment, so that an instance which becomes free is always waited for: what is measured is how
long it takes from there until the next chain has it. Every size runs in a process of its own.

A simulation with the CPU times that were measured then goes on to 100,000 chains on 200 nodes, and
reports what would be the bottleneck there.

Run with `make bench-scale`; about 14 minutes on two quiet cores.
"""

import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import report
from benchmarks.scale_simulation import SATURATED, simulate

from agentfly import Agent, Limits, ScriptedEngine, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.config import ClusterSettings
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.resources.placement import placement_of
from agentfly.types import EnvSpec, Seed, Trajectory

if TYPE_CHECKING:
    from agentfly.cluster import RayCluster

SIZES = (250, 1000, 4000)
CHAINS_PER_ENVIRONMENT = 4
CHAINS_PER_PLACE = 1.5
"""Chains that run one after the other in each of the concurrent places."""
GENERATION = (6.0, 12.0)
"""Seconds of a turn's generation: so long that one driver keeps up with Ray's calls."""
TURNS = 3
PER_ACTOR = 250
PATIENCE = 1800.0
"""Seconds after which a measurement is given up."""
CALL = '<tool_call>{"name": "act", "arguments": {}}</tool_call>'


class Light:
    """An environment that costs next to nothing."""

    def __init__(self) -> None:
        self._acts = 0

    async def reset(self, task: object, seed: object) -> None:
        del task, seed
        self._acts = 0

    async def act(self) -> str:
        self._acts += 1
        return f"act {self._acts}"

    def close(self) -> None:
        pass


@tool(timeout=600.0)
async def act(env: Light) -> str:
    """Act."""
    return await env.act()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one size costs."""

    chains: int
    finished: int
    lease_p50_ms: float
    lease_p99_ms: float
    chains_per_s: float
    driver_cpu_ms: float
    """CPU of this process per finished chain."""
    node_cpu_ms: float
    """CPU of the actors per finished chain."""
    bytes_per_chain: float
    actors_mb: float


class WatchedPool:
    """Passes leases on, and measures from an instance's being free to its being granted."""

    def __init__(self, manager: EnvironmentManager) -> None:
        self._manager = manager
        self._freed: dict[int, float] = {}
        self.waits: list[float] = []

    @asynccontextmanager
    async def lease(
        self,
        specs: Sequence[EnvSpec],
        *,
        owner: str,
        deadline: float,
        patience: float = math.inf,
    ) -> AsyncIterator[Mapping[EnvSpec, Any]]:
        async with self._manager.lease(
            specs, owner=owner, deadline=deadline, patience=patience
        ) as leased:
            members = [id(handle._lease.member) for handle in leased.values()]
            now = time.perf_counter()
            self.waits += [now - self._freed.pop(m) for m in members if m in self._freed]
            yield leased
            now = time.perf_counter()
            self._freed.update(dict.fromkeys(members, now))


async def measure(where: str, chains: int) -> Measured:
    """Run half as many chains again as run at once."""
    instances = chains // CHAINS_PER_ENVIRONMENT
    pooling = Pooling(max_instances=instances, max_uses=10**9, make_seconds=300, max_age=1e9)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(_cluster(chains)) if where == "ray" else None
        manager = await stack.enter_async_context(
            EnvironmentManager(
                {Light: pooling}, placement_of=cluster.placement_of if cluster else placement_of
            )
        )
        await _warm(manager, instances)
        pool = WatchedPool(manager)
        agent = _agent(pool)
        before, cpu, started = _memory(), time.process_time(), time.perf_counter()
        actors_cpu = await _actors_cpu(cluster)
        peak = [before]
        watching = asyncio.get_running_loop().create_task(_watch_memory(peak))
        done: list[Trajectory] = []
        rows = [{"question": f"{number}?"} for number in range(int(chains * CHAINS_PER_PLACE) // 8)]
        await agent.run(
            rows,
            num_chains=8,
            max_concurrent_chains=chains,
            retries=0,
            on_trajectory=done.append,
        )
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        watching.cancel()
        await asyncio.wait({watching})
        failed = [chain for chain in done if chain.error is not None]
        assert not failed, failed[0].error
        waits = sorted(pool.waits)
        actors_cpu = await _actors_cpu(cluster) - actors_cpu
        memory = cluster.state().metrics["cluster/memory_mb"] if cluster else 0.0
        return Measured(
            chains=chains,
            finished=len(done),
            lease_p50_ms=waits[len(waits) // 2] * 1e3,
            lease_p99_ms=waits[math.ceil(len(waits) * 0.99) - 1] * 1e3,
            chains_per_s=len(done) / seconds,
            driver_cpu_ms=cpu / len(done) * 1e3,
            node_cpu_ms=actors_cpu / len(done) * 1e3,
            bytes_per_chain=(peak[0] - before) / chains,
            actors_mb=memory,
        )


def _agent(pool: WatchedPool) -> Agent:
    def seconds(seed: Seed) -> float:
        return seed.random().uniform(*GENERATION)

    script = [CALL] * (TURNS - 1) + ["done"]
    engine = ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS), latency=seconds)
    limits = Limits(seconds=PATIENCE, lease_seconds=PATIENCE)
    return Agent(engine, tools=[act], pool=pool, limits=limits)


async def _warm(manager: EnvironmentManager, instances: int) -> None:
    """Make all instances before the clock starts."""
    spec = EnvSpec(Light)
    there = asyncio.Barrier(instances)

    async def hold(number: int) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        async with manager.lease([spec], owner=f"warm{number}", deadline=deadline):
            await there.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(instances):
            group.create_task(hold(number))


@asynccontextmanager
async def _cluster(chains: int) -> AsyncIterator["RayCluster"]:
    from agentfly.cluster import open_cluster

    settings = ClusterSettings(
        ray="local", cpus=4, object_store_mb=100, instances_per_actor=PER_ACTOR
    )
    with tempfile.TemporaryDirectory() as folder:
        async with open_cluster(settings, log_folder=Path(folder), concurrency=chains) as cluster:
            yield cluster


async def _actors_cpu(cluster: "RayCluster | None") -> float:
    """Return the CPU seconds that the actors have used so far; they are on this machine."""
    if cluster is None:
        return 0.0
    await cluster.collect()
    return sum(_cpu_of(worker.pid) for worker in cluster.state().workers if worker.pid)


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _watch_memory(peak: list[int]) -> None:
    while True:
        peak[0] = max(peak[0], _memory())
        await asyncio.sleep(0.05)


def growth_exponent(measured: Sequence[Measured]) -> float:
    """Return the slope of log(CPU of the whole size, actors included) over log(chains).

    1 is linear.
    """
    points = [
        (math.log(m.chains), math.log((m.driver_cpu_ms + m.node_cpu_ms) * m.finished))
        for m in measured
    ]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return rise / sum((x - mean_x) ** 2 for x, _ in points)


def _in_own_process(where: str, chains: int) -> Measured:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", where, str(chains)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    measured = Measured(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"  {where:5} {chains:5} chains: free to granted {measured.lease_p50_ms:.2f} ms (p50), "
        f"{measured.lease_p99_ms:.2f} ms (p99); {measured.chains_per_s:.1f} chains/s; "
        f"CPU per chain {measured.driver_cpu_ms:.2f} ms here, {measured.node_cpu_ms:.2f} ms in "
        f"actors; {measured.bytes_per_chain / 1024:.0f} KiB per chain, "
        f"{measured.actors_mb:.0f} MB in actors",
        flush=True,
    )
    return measured


def main() -> None:
    local = [_in_own_process("local", chains) for chains in SIZES]
    on_ray = [_in_own_process("ray", chains) for chains in SIZES]
    far = on_ray[-1]
    numbers = {
        **_leases("local", *local),
        **_leases("ray", *on_ray),
        "growth_exponent": growth_exponent(local),
        "ray_growth_exponent": growth_exponent(on_ray),
        "bytes_per_chain": local[-1].bytes_per_chain,
        "local_driver_cpu_ms_per_chain": local[-1].driver_cpu_ms,
        "ray_driver_cpu_ms_per_chain": far.driver_cpu_ms,
        "ray_node_cpu_ms_per_chain": far.node_cpu_ms,
        "ray_bytes_per_chain": far.bytes_per_chain,
        "ray_actors_mb": far.actors_mb,
        **_beyond(far),
    }
    linear = "at most linear: about 1"
    report("scale", numbers, aims={"growth_exponent": linear, "ray_growth_exponent": linear})


def _leases(where: str, *measured: Measured) -> dict[str, float]:
    shown = ("lease_p50_ms", "lease_p99_ms", "chains_per_s")
    return {f"{where}_{m.chains}_{name}": getattr(m, name) for m in measured for name in shown}


def _beyond(far: Measured) -> dict[str, float]:
    """Simulate more chains on more nodes with these CPU times, and print what limits them."""
    chains, nodes = SIMULATED
    numbers = {"simulated_driver_memory_gb": far.bytes_per_chain * chains / 1e9}
    for turn_seconds in (3.0, 30.0):
        simulated = simulate(
            chains,
            nodes,
            turns=TURNS,
            driver_ms=far.driver_cpu_ms,
            node_ms=far.node_cpu_ms,
            turn_seconds=turn_seconds,
        )
        print(
            f"  simulated: {chains:,} chains on {nodes} nodes with turns of {turn_seconds:g} s: "
            f"{simulated.chains_per_s:,.0f} of {simulated.ideal_per_s:,.0f} chains/s; the run's "
            f"own process is busy {simulated.driver_share:.0%} of the time, a node "
            f"{simulated.node_share:.0%}; an event waits {simulated.wait_p99_s:.3g} s (p99). "
            f"Bottleneck: {simulated.bottleneck}"
        )
        for name in ("chains_per_s", "ideal_per_s", "driver_share", "node_share"):
            numbers[f"simulated_{turn_seconds:g}s_turns_{name}"] = getattr(simulated, name)
    share_of_one = far.driver_cpu_ms / 1e3 / (30.0 * TURNS)
    numbers["chains_per_driver_30s_turns"] = SATURATED / share_of_one
    return numbers


SIMULATED = (100_000, 200)
"""Chains and nodes beyond this machine."""


if __name__ == "__main__":
    if len(sys.argv) == 3:
        result = asyncio.run(measure(sys.argv[1], int(sys.argv[2])))
        print(json.dumps(asdict(result)))
    else:
        main()
