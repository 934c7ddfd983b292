"""The state of a cluster on which environments and engines run, as data and as text."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """One actor of a run."""

    name: str
    """Kind and number: `pool-0`, `engine-1`."""
    purpose: str
    """Environment or engine that it hosts."""
    node: str
    pid: int | None = None
    busy: int = 0
    """Number of instances that it hosts, or of requests under way."""
    calls: int = 0
    memory_mb: float = 0.0
    lost: str | None = None
    """Why it is gone; None while it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One machine of the cluster."""

    name: str
    alive: bool
    cpus: float
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """Nodes and workers of a run, as of the last time that they were asked."""

    nodes: tuple[NodeState, ...]
    workers: tuple[WorkerState, ...]
    tasks: int = 0
    """Number of calls of heavy functions that were sent to the cluster."""

    @property
    def metrics(self) -> dict[str, float]:
        """Return the numbers by name, such as `cluster/nodes`."""
        used = [worker for worker in self.workers if worker.lost is None]
        return {
            "cluster/nodes": float(sum(node.alive for node in self.nodes)),
            "cluster/lost_nodes": float(sum(not node.alive for node in self.nodes)),
            "cluster/workers": float(len(used)),
            "cluster/lost_workers": float(len(self.workers) - len(used)),
            "cluster/memory_mb": sum(worker.memory_mb for worker in used),
            "cluster/calls": float(sum(worker.calls for worker in self.workers)),
            "cluster/tasks": float(self.tasks),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines that a person reads: each node with its workers."""
        alive = sum(node.alive for node in self.nodes)
        yield f"cluster: {alive} of {len(self.nodes)} nodes alive, {self.tasks} heavy calls sent"
        for node in self.nodes:
            standing = "" if node.alive else ", dead"
            yield f"  node {node.name}: {node.cpus:g} CPUs, {node.gpus:g} GPUs{standing}"
            for worker in self.workers:
                if worker.node == node.name:
                    yield f"    {_line(worker)}"


def _line(worker: WorkerState) -> str:
    head = f"{worker.name} ({worker.purpose})"
    if worker.lost is not None:
        return f"{head}: {worker.lost}"
    if worker.pid is None:
        return f"{head}: starting"
    return (
        f"{head}: {worker.busy} in it, {worker.calls} calls, {worker.memory_mb:.0f} MB, "
        f"pid {worker.pid}"
    )
