"""The GPU of a learner of one process, which engines must leave alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.conftest import Nodes

from agentfly.cluster import open_cluster
from agentfly.cluster.nodes import Need
from agentfly.config import ClusterSettings
from agentfly.errors import EnvError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def head() -> Iterator[Nodes]:
    # For Ray a GPU is a number: none has to be there.
    started = Nodes(1, num_gpus=1)
    try:
        yield started
    finally:
        started.close()


async def test_no_worker_is_placed_on_a_gpu_that_is_kept(head: Nodes, tmp_path: Path) -> None:
    settings = ClusterSettings(ray=head.address)
    async with open_cluster(settings, log_folder=tmp_path, concurrency=1) as cluster:
        assert cluster.offers_gpus_here
        groups = cluster.process_groups(print)
        async with groups.start(1, "", tmp_path) as kept:
            assert kept.first_gpu == 0
            with pytest.raises(EnvError, match="has room for engine"):
                cluster.nodes.choose(Need(gpus=1), "engine")
        assert cluster.nodes.choose(Need(gpus=1), "engine").alive
