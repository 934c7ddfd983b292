"""The nodes of a cluster, and which of them the next worker goes to."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import ray

from agentfly.errors import EnvError

SUSPECT_SECONDS = 30.0
"""Time for which a node that lost a worker gets no new one: Ray needs a while to notice a death."""
_MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Resources that a worker reserves on its node."""

    cpus: float = 0.0
    gpus: float = 0.0
    memory_mb: float = 0.0

    def times(self, count: int) -> "Need":
        """Return the need of several.

        >>> Need(cpus=0.5).times(4)
        Need(cpus=2.0, gpus=0.0, memory_mb=0.0)
        """
        return Need(
            cpus=self.cpus * count, gpus=self.gpus * count, memory_mb=self.memory_mb * count
        )

    @property
    def options(self) -> dict[str, Any]:
        """The options of a Ray actor or task."""
        memory = {"memory": int(self.memory_mb * _MB)} if self.memory_mb else {}
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, **memory}

    def __str__(self) -> str:
        parts = {"CPUs": self.cpus, "GPUs": self.gpus, "MB": self.memory_mb}
        return ", ".join(f"{value:g} {name}" for name, value in parts.items() if value) or "nothing"


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One machine of the cluster, and what our workers reserve of it."""

    id: str
    address: str
    total: Need
    alive: bool = True
    reserved: Counter[str] = field(default_factory=Counter)
    workers: Counter[str] = field(default_factory=Counter)
    """Number of workers by purpose."""
    suspect_until: float = 0.0

    @property
    def name(self) -> str:
        """Address and beginning of the id: several nodes may share a machine."""
        return f"{self.address}/{self.id[:6]}"

    def fits(self, need: Need) -> int:
        """Return how many such needs can still be reserved, at most a million."""
        found = [
            (getattr(self.total, name) - self.reserved[name]) / wanted
            for name in ("cpus", "gpus", "memory_mb")
            if (wanted := getattr(need, name))
        ]
        return int(min([1e6, *(part + 1e-9 for part in found)]))

    def reserve(self, need: Need, purpose: str, sign: int = 1) -> None:
        """Note a worker; with `sign=-1`, that it has ended."""
        for name in ("cpus", "gpus", "memory_mb"):
            self.reserved[name] += sign * getattr(need, name)
        self.workers[purpose] += sign


class Nodes:
    """All nodes that were ever seen."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def __iter__(self) -> Any:
        return iter(self._nodes.values())

    @property
    def alive(self) -> list[Node]:
        """Nodes that Ray considers alive."""
        return [node for node in self._nodes.values() if node.alive]

    def refresh(self) -> None:
        """Ask Ray for the nodes; blocks for as long as its head takes to answer."""
        self.update(ray.nodes())

    def update(self, listed: list[dict[str, Any]]) -> None:
        """Take over a list of nodes as `ray.nodes()` gives it."""
        for entry in listed:
            have = entry.get("Resources", {})
            node = self._nodes.get(entry["NodeID"])
            if node is None:
                total = Need(
                    cpus=have.get("CPU", 0.0),
                    gpus=have.get("GPU", 0.0),
                    memory_mb=have.get("memory", 0.0) / _MB,
                )
                address = entry["NodeManagerAddress"]
                node = Node(id=entry["NodeID"], address=address, total=total)
                self._nodes[node.id] = node
            node.alive = bool(entry["Alive"])

    def choose(self, need: Need, purpose: str) -> Node:
        """Return the node with the fewest workers of this purpose that has room for one more."""
        now = time.monotonic()
        fitting = [node for node in self.alive if node.fits(need)]
        if not fitting:
            totals = "; ".join(
                f"{node.name} has {node.total}, of which "
                f"{', '.join(f'{v:g} {k}' for k, v in node.reserved.items() if v) or 'nothing'} "
                "is taken by this run"
                for node in self.alive
            )
            raise EnvError(
                f"no node of the cluster has room for {purpose}, which needs {need}: "
                f"{totals or 'no node is alive'}. Add nodes, or ask for less"
            )
        return min(
            fitting,
            key=lambda node: (
                node.suspect_until > now,
                node.workers[purpose],
                node.workers.total(),
                -node.fits(need),
                node.id,
            ),
        )
