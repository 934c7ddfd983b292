"""The cluster of a run: where its parts are placed, watched and ended."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from agentfly.cluster.actor_pools import ActorPools
from agentfly.cluster.connection import connected
from agentfly.cluster.heavy_tasks import HeavyTasks
from agentfly.cluster.nodes import Nodes
from agentfly.cluster.process_group import ProcessGroups, Target
from agentfly.cluster.worker import ClusterWorker, WorkerLostError, Workers
from agentfly.cluster.worker_actor import WorkerReport
from agentfly.config import ClusterSettings
from agentfly.engines import EngineSpec, ReplicatedEngine
from agentfly.resources.cluster_state import ClusterState, NodeState, WorkerState
from agentfly.resources.placement import Placement
from agentfly.resources.placement.instance import in_manager_thread
from agentfly.types import Heavy

WATCH_SECONDS = 5.0
"""Interval at which nodes and workers are asked for their state and their lines."""
REPORT_SECONDS = 10.0
"""Time limit of one report; a busy worker that misses it is asked again."""

_log = logging.getLogger(__name__)


class RayCluster:
    """The nodes and workers of one run."""

    def __init__(self, settings: ClusterSettings, *, log_folder: Path, concurrency: int) -> None:
        """Prepare; see `open_cluster`."""
        self.settings = settings
        self.nodes = Nodes()
        self.workers = Workers(self.nodes)
        self._log_folder = log_folder
        self._tasks = HeavyTasks(partial(self._append, "tasks"))
        self._pools = ActorPools(self.workers, settings, concurrency=concurrency)

    @property
    def offers_gpus_here(self) -> bool:
        """Whether Ray gives the GPUs of this process's node to workers."""
        here = ray.get_runtime_context().get_node_id()
        return any(node.total.gpus > 0 for node in self.nodes if node.id == here)

    def placement_of(self, where: str) -> Placement:
        """Return how environments are made: in actors on the nodes."""
        return self._pools.placement_of(where)

    def make_engine(self, spec: EngineSpec, *, trust_remote_code: bool = False) -> ReplicatedEngine:
        """Make the engine that the settings name, each replica in an actor on some node."""
        # It imports torch, which pool actors do without.
        from agentfly.cluster.actor_engine import make_actor_engines

        return ReplicatedEngine(
            make_actor_engines(spec, self.workers, self.settings, trusted=trust_remote_code)
        )

    def process_groups(self, target: Target) -> ProcessGroups:
        """Return the nodes as hosts of processes that are placed all together or not at all."""
        return ProcessGroups(self.workers, self.settings, target)

    def offload(
        self, function: Callable[..., Any], heavy: Heavy, name: str
    ) -> Callable[..., Awaitable[Any]]:
        """Return an async function that calls a heavy function on some node."""
        return self._tasks.offload(function, heavy, name)

    def state(self) -> ClusterState:
        """Return nodes and workers, as of the last reports."""
        return ClusterState(
            nodes=tuple(
                NodeState(
                    name=node.name, alive=node.alive, cpus=node.total.cpus, gpus=node.total.gpus
                )
                for node in self.nodes
            ),
            workers=tuple(_state(worker) for worker in self.workers.all),
            tasks=self._tasks.sent,
        )

    async def watch(self) -> None:
        """Collect the state and the lines of all workers, for as long as the run lasts."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self.collect()

    async def collect(self) -> None:
        """Collect once."""
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                await in_manager_thread(self.nodes.refresh, "list the nodes")
        except (TimeoutError, OSError, RayError) as error:
            _log.warning("the head of the cluster does not list its nodes: %r", error)
        async with asyncio.TaskGroup() as group:
            for worker in self.workers.all:
                if worker.lost is None and not worker.ended:
                    group.create_task(self._collect_from(worker))

    async def _collect_from(self, worker: ClusterWorker) -> None:
        with suppress(WorkerLostError, TimeoutError):
            report: WorkerReport = await worker.raw_call("report", seconds=REPORT_SECONDS)
            worker.last_report = report
            dropped = [f"... {report.dropped} lines were dropped"] if report.dropped else []
            self._append(worker.name, [*dropped, *report.lines])

    def _append(self, name: str, lines: Sequence[str]) -> None:
        if not lines:
            return
        try:
            self._log_folder.mkdir(parents=True, exist_ok=True)
            path = self._log_folder / f"{name}.log"
            with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            _log.warning("the lines of worker %s can't be written: %s", name, error)


@asynccontextmanager
async def open_cluster(
    settings: ClusterSettings, *, log_folder: Path, concurrency: int
) -> AsyncIterator[RayCluster]:
    """Join or start a cluster; at the end, nothing of the run is left on it.

    Args:
        settings: The table `[cluster]`.
        log_folder: The lines of each worker are appended to a file there.
        concurrency: Chains at once.
    """
    async with connected(settings):
        cluster = RayCluster(settings, log_folder=log_folder, concurrency=concurrency)
        await in_manager_thread(cluster.nodes.refresh, "list the nodes")
        watching = asyncio.get_running_loop().create_task(cluster.watch(), name="watch cluster")
        try:
            yield cluster
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            try:
                await cluster.collect()
            finally:
                cluster.workers.end_all()
        if not watching.cancelled():
            watching.result()


def _state(worker: ClusterWorker) -> WorkerState:
    report = worker.last_report
    known = WorkerState(
        name=worker.name, purpose=worker.purpose, node=worker.node.name, lost=worker.lost
    )
    if report is None:
        return known
    return WorkerState(
        name=worker.name,
        purpose=worker.purpose,
        node=worker.node.name,
        lost=worker.lost,
        pid=report.pid,
        busy=report.busy,
        calls=report.calls,
        memory_mb=report.memory_mb,
    )
