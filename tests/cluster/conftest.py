"""A Ray cluster of three small nodes on this machine."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

NODE: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 100_000_000}


def patiently(start: Callable[[], Any]) -> Any:
    """Start again what Ray gave only 30 s, which a busy machine may not have."""
    from agentfly.cluster.connection import TOO_SLOW

    for _ in range(4):
        try:
            return start()
        except Exception as error:
            if not any(said in str(error) for said in TOO_SLOW):
                raise
    return start()


class Nodes:
    """A cluster whose nodes can be killed."""

    def __init__(self, count: int, **more: Any) -> None:
        """Start them; `more` are resources of the head."""
        from ray.cluster_utils import Cluster

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")
        head = {**NODE, **more, "include_dashboard": False}
        self.cluster: Any = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        self.others: list[Any] = []
        for _ in range(count - 1):
            self.add()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def kill(self, node_id: str) -> None:
        """End a node as a power failure would."""
        node = next(node for node in self.others if node.node_id == node_id)
        self.others.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)

    def add(self) -> None:
        self.others.append(patiently(lambda: self.cluster.add_node(**NODE)))

    def close(self) -> None:
        self.cluster.shutdown()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    started = Nodes(3)
    try:
        yield started
    finally:
        started.close()
