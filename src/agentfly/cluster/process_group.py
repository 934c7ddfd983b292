"""The other processes of a learner, as actors of one placement group: all are placed, or none.

bundle 0      on the node of the run's own process: kept for it, by an actor that does nothing
bundle 1, …   an actor each, as near as the nodes have room
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.util import get_node_ip_address, placement_group_table, remove_placement_group
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from agentfly.cluster.nodes import Need, Node
from agentfly.cluster.worker import ClusterWorker, Workers
from agentfly.cluster.worker_actor import WorkerActor
from agentfly.config import ClusterSettings
from agentfly.errors import ConfigError
from agentfly.resources.placement.instance import in_manager_thread

KIND = "learner"
NODE_LABEL = "ray.io/node-id"
"""Label by which Ray selects a node."""

Target = Callable[..., None]
"""What each process runs, by the keywords rank, world_size, address, local_rank, local_world_size,
gpu and host."""


class ProcessActor(WorkerActor):
    """One process of a group."""

    async def run(self, target: Target, place: dict[str, Any]) -> None:
        """Run it to its end."""
        self.calls += 1
        await asyncio.to_thread(target, **place, host=get_node_ip_address())

    async def gpu(self) -> int | None:
        """Return the number of the GPU that Ray gave it."""
        found = ray.get_gpu_ids()
        return int(found[0]) if found else None


class PlacedProcesses:
    """The processes of a group, by the futures of what they run."""

    def __init__(
        self, running: dict[ClusterWorker, Future[None]], *, logs: str, first_gpu: int | None
    ) -> None:
        self._running = running
        self.logs = logs
        self.first_gpu = first_gpu

    def ended(self) -> str | None:
        """Return which of them ended, and how; None while all of them run."""
        for worker, future in self._running.items():
            if future.done():
                error = future.exception()
                lines = str(error).strip().splitlines() if error else ["it returned"]
                # What a process raised stands at the end of its traceback.
                return worker.lose(lines[-1] if "Traceback" in str(error) else lines[0])
        return None


class ProcessGroups:
    """Starts groups of processes on the nodes."""

    def __init__(self, workers: Workers, settings: ClusterSettings, target: Target) -> None:
        self.host = get_node_ip_address()
        self._workers = workers
        self._settings = settings
        self._target = target

    @asynccontextmanager
    async def start(
        self, count: int, address: str, log_folder: Path
    ) -> AsyncIterator[PlacedProcesses]:
        """Start all processes but the first, for which a bundle is kept; end them with the block.

        Args:
            count: All processes, with the one that runs here.
            address: Passed to them.
            log_folder: The folder that holds the logs of workers.
        """
        need, workers = self._need(), list[ClusterWorker]()
        async with self._placed(need, count) as (group, nodes):
            with _ended_with(workers):
                for rank, node in enumerate(nodes):
                    workers.append(self._start(group, rank, node, need))
                seconds = self._settings.start_seconds
                first_gpu = await workers[0].raw_call("gpu", seconds=seconds)
                places = _places(nodes, address, with_gpu=need.gpus > 0)
                running = {
                    worker: worker.actor.run.remote(self._target, place).future()
                    for worker, place in zip(workers[1:], places[1:], strict=True)
                }
                logs = str(log_folder / "workers" / f"{KIND}-N.log")
                yield PlacedProcesses(running, logs=logs, first_gpu=first_gpu)

    def _need(self) -> Need:
        gpus = self._settings.learner_gpus
        if gpus is None:
            gpus = 1.0 if any(node.total.gpus for node in self._workers.nodes.alive) else 0.0
        return Need(cpus=self._settings.learner_cpus, gpus=gpus)

    @asynccontextmanager
    async def _placed(
        self, need: Need, count: int
    ) -> AsyncIterator[tuple[PlacementGroup, list[Node]]]:
        """Reserve a bundle for each process, the first one on the node of this one."""
        here = {NODE_LABEL: ray.get_runtime_context().get_node_id()}
        bundle = {"CPU": need.cpus, **({"GPU": need.gpus} if need.gpus else {})}
        group = placement_group(
            [bundle] * count, strategy="PACK", bundle_label_selector=[here] + [{}] * (count - 1)
        )
        try:
            seconds = self._settings.start_seconds
            if not await in_manager_thread(partial(group.wait, seconds), "place the learner"):
                raise ConfigError(self._no_room(need, count))
            table = await in_manager_thread(partial(placement_group_table, group), "find bundles")
            by_id = {node.id: node for node in self._workers.nodes}
            yield group, [by_id[table["bundles_to_node_id"][rank]] for rank in range(count)]
        finally:
            remove_placement_group(group)

    def _no_room(self, need: Need, count: int) -> str:
        have = "; ".join(f"{node.name} has {node.total}" for node in self._workers.nodes.alive)
        return (
            f"the cluster has no room for {count} learner processes that need {need} each, the "
            f"first of them on the node of this process: within {self._settings.start_seconds:g} s "
            f"(cluster.start_seconds) they could not be placed. {have}. Add nodes, or lower "
            "learner.processes, cluster.learner_cpus or cluster.learner_gpus"
        )

    def _start(self, group: PlacementGroup, rank: int, node: Node, need: Need) -> ClusterWorker:
        threads = str(max(1, math.floor(need.cpus)))
        return self._workers.start(
            ProcessActor,
            kind=KIND,
            purpose=KIND,
            need=need,
            variables={"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": threads},
            node=node,
            strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
        )


@contextmanager
def _ended_with(workers: list[ClusterWorker]) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers:
            worker.end()


def _places(nodes: Sequence[Node], address: str, *, with_gpu: bool) -> list[dict[str, Any]]:
    """Return the place of each process, by rank: Ray shows each one its own GPU only."""
    sizes, begun = Counter(node.id for node in nodes), Counter[str]()
    places = []
    for rank, node in enumerate(nodes):
        place = {"rank": rank, "world_size": len(nodes), "address": address}
        local = {"local_rank": begun[node.id], "local_world_size": sizes[node.id]}
        places.append({**place, **local, "gpu": 0 if with_gpu else None})
        begun[node.id] += 1
    return places
