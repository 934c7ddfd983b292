"""Environments in actors on several nodes, leased by the one manager."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.conftest import Nodes
from tests.resources.pool_environments import TASK, Box, Odd, soon, until

from agentfly.cluster import RayCluster, open_cluster
from agentfly.config import ClusterSettings
from agentfly.errors import EnvError, ToolError
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.types import EnvSpec, Seed, Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@asynccontextmanager
async def on_cluster(
    nodes: Nodes, folder: Path, pooling: Pooling, *, kind: type = Box
) -> AsyncIterator[tuple[RayCluster, EnvironmentManager]]:
    settings = ClusterSettings(ray=nodes.address)
    async with (
        open_cluster(settings, log_folder=folder, concurrency=6) as cluster,
        EnvironmentManager(
            {kind: pooling}, placement_of=cluster.placement_of, cluster_state=cluster.state
        ) as manager,
    ):
        yield cluster, manager


async def test_instances_are_spread_and_behave_like_local_ones(
    nodes: Nodes, tmp_path: Path
) -> None:
    pooling = Pooling(max_instances=6, max_uses=5)
    async with on_cluster(nodes, tmp_path, pooling) as (cluster, manager):
        seen: set[str] = set()

        async def chain(number: int, all_there: asyncio.Barrier) -> None:
            spec = EnvSpec(Box)
            async with manager.lease([spec], owner=f"c{number}", deadline=soon()) as leased:
                box = leased[spec]
                assert await asyncio.to_thread(box.reset, TASK, Seed(number)) == "REACH 2."
                step = await asyncio.to_thread(box.step, "go")
                assert step.observation == "NOW AT 1."
                assert await asyncio.to_thread(lambda: box.size) == 1
                await all_there.wait()
                seen.update(held.environments[0] for held in manager.snapshot().leases)

        barrier = asyncio.Barrier(6)
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(chain(number, barrier))
        assert len(seen) == 3, "two instances on each of three nodes"
        await cluster.collect()
        state = manager.snapshot().cluster
        assert state is not None
        assert [worker.busy for worker in state.workers] == [2, 2, 2]
        assert "3 of 3 nodes alive" in manager.snapshot().text
    assert cluster.workers.lost == 0


async def test_a_dead_node_breaks_its_leases_and_is_replaced(nodes: Nodes, tmp_path: Path) -> None:
    pooling = Pooling(max_instances=6, max_uses=5)
    async with on_cluster(nodes, tmp_path, pooling) as (cluster, manager):
        spec = EnvSpec(Box)
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(_use_once(manager, spec, number))
        other = {node.node_id for node in nodes.others}
        victim = next(w for w in cluster.workers.all if w.node.id in other)
        broken = asyncio.Event()

        async def hold(number: int) -> str:
            async with manager.lease([spec], owner=f"h{number}", deadline=soon()) as leased:
                box = leased[spec]
                await asyncio.to_thread(box.reset, TASK, Seed(0))
                held.append(number)
                await broken.wait()
                try:
                    for _ in range(2000):
                        await asyncio.to_thread(box.step, "go")
                        await asyncio.sleep(0.05)
                        if all_done():
                            return "fine"
                except EnvError as error:
                    return str(error)
            return "fine"

        held: list[int] = []

        def all_done() -> bool:
            return victim.lost is not None

        async with asyncio.TaskGroup() as group:
            chains = [group.create_task(hold(number)) for number in range(6)]
            await until(lambda: len(held) == 6)
            nodes.kill(victim.node.id)
            broken.set()
        ends = [chain.result() for chain in chains]
        assert 1 <= sum("was lost" in end for end in ends) <= 2
        assert sum(end == "fine" for end in ends) >= 4
        # The pool refills on the surviving nodes.
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(_use_once(manager, spec, number))
        living = [worker for worker in cluster.workers.all if worker.lost is None]
        assert all(worker.node.id != victim.node.id for worker in living)
        await cluster.collect()

        def settled() -> bool:
            pool = manager.snapshot().stocks[0]
            return (pool.leased, pool.waiting, pool.making, pool.ending) == (0, 0, 0, 0)

        await until(settled)
        assert manager.snapshot().stocks[0].crashed >= 1
    nodes.add()


async def _use_once(manager: EnvironmentManager, spec: EnvSpec, number: int) -> None:
    async with manager.lease([spec], owner=f"u{number}", deadline=soon(60)) as leased:
        await asyncio.to_thread(leased[spec].reset, TASK, Seed(number))
        await asyncio.to_thread(leased[spec].step, "go")


async def test_processes_on_nodes_break_alone(nodes: Nodes, tmp_path: Path) -> None:
    pooling = Pooling(where="process", max_instances=2, max_uses=3, call_seconds=2.0)
    async with on_cluster(nodes, tmp_path, pooling, kind=Odd) as (cluster, manager):
        spec = EnvSpec(Odd)
        async with manager.lease([spec], owner="a", deadline=soon(60)) as leased:
            odd = leased[spec]
            await asyncio.to_thread(odd.reset, TASK, Seed(0))
            with pytest.raises(ToolError, match="put it back"):
                await asyncio.to_thread(odd.scold)
            with pytest.raises(EnvError, match="ended with code 3"):
                await asyncio.to_thread(odd.step, "die")
        async with manager.lease([spec], owner="b", deadline=soon(60)) as leased:
            odd = leased[spec]
            await asyncio.to_thread(odd.reset, TASK, Seed(0))
            with pytest.raises(EnvError, match="did not answer within"):
                await asyncio.to_thread(odd.step, "hang")
        async with manager.lease([spec], owner="c", deadline=soon(60)) as leased:
            odd = leased[spec]
            await asyncio.to_thread(odd.reset, TASK, Seed(0))
            assert (await asyncio.to_thread(odd.step, "go")).observation == "NOW AT 1."
        assert cluster.workers.lost == 0
        assert manager.snapshot().stocks[0].crashed == 2


class Printer(Box):
    """Prints what it is asked to."""

    def step(self, action: str) -> Step:
        print(f"someone said {action}")
        return super().step(action)


async def test_lines_of_workers_reach_the_folder(nodes: Nodes, tmp_path: Path) -> None:
    async with on_cluster(nodes, tmp_path, Pooling(), kind=Printer) as (_, manager):
        spec = EnvSpec(Printer)
        async with manager.lease([spec], owner="a", deadline=soon(60)) as leased:
            await asyncio.to_thread(leased[spec].reset, TASK, Seed(0))
            await asyncio.to_thread(leased[spec].step, "hello")
    assert "someone said hello" in (tmp_path / "pool-0.log").read_text()
