"""A real vLLM server in an actor on a node of a cluster; `make test-vllm` runs it."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.cluster.abacus import source
from tests.cluster.conftest import Nodes
from tests.patience import until
from tests.resources.pool_environments import soon

from agentfly import Trainer
from agentfly.cluster import RayCluster, open_cluster
from agentfly.cluster.worker import ClusterWorker
from agentfly.config import ClusterSettings, EngineSettings, RunSettings
from agentfly.engines import EngineSpec, ReplicatedEngine
from agentfly.errors import EngineError
from agentfly.models import load_model, resolve_model
from agentfly.observe import read_trajectories
from agentfly.runtime.process_registry import Identity
from agentfly.types import Completion, Request, SamplingParams, Seed, WeightsFolder

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        "AGENTFLY_VLLM_PYTHON" not in os.environ, reason="AGENTFLY_VLLM_PYTHON is not set"
    ),
]

VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "1"}
PROMPT = list(range(40, 60))
CLOSE = 2e-3
"""Bound on the difference of log-probabilities: float32 on both sides, summed in other orders."""


@pytest.fixture(scope="module")
def head_and_node() -> Iterator[Nodes]:
    """A cluster whose head has no room for workers, and one node that has."""
    started = Nodes(2, num_cpus=0)
    try:
        yield started
    finally:
        started.close()


def vllm_spec() -> EngineSpec:
    settings = EngineSettings(name="vllm", dtype="float32", variables=VARIABLES)
    return EngineSpec(
        folder=resolve_model("tiny"),
        load=lambda _: None,
        settings=settings,
        context_length=512,
        concurrency=4,
    )


def written(scale: float, folder: Path) -> tuple[Any, WeightsFolder]:
    """Return a model whose weights are those of `tiny` times a number, and a folder of them."""
    model = load_model(resolve_model("tiny"), dtype=torch.float32, device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    folder.mkdir()
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return model, WeightsFolder(path=folder)


async def sampled(engine: ReplicatedEngine, chain: str, tokens: int = 16) -> Completion:
    request = Request(chain_id=chain, group_id="g", turn=0, seed=Seed(3))
    params = SamplingParams(max_tokens=tokens)
    return await engine.sample(PROMPT, params, request=request, deadline=soon(1500))


async def assert_samples_from(engine: ReplicatedEngine, model: Any, version: int) -> None:
    async with asyncio.TaskGroup() as group:
        chains = [group.create_task(sampled(engine, f"c{n}")) for n in range(4)]
    for chain in chains:
        completion = chain.result()
        assert completion.versions == ((version, len(completion.token_ids)),)
        ids = torch.tensor([[*PROMPT, *completion.token_ids]])
        with torch.no_grad():
            logprobs = model(ids).logits[0, len(PROMPT) - 1 : -1].log_softmax(-1)
        expected = logprobs.gather(1, ids[0, len(PROMPT) :, None])[:, 0]
        assert list(completion.logprobs) == pytest.approx(expected.tolist(), abs=CLOSE)


async def processes_of(cluster: RayCluster, worker: ClusterWorker) -> list[Identity]:
    """Return the process of an actor and all below it: those of its server."""
    await cluster.collect()
    assert worker.last_report is not None
    found = [worker.last_report.pid]
    for pid in found:
        found += _children(pid)
    return [life for pid in found if (life := Identity.of(pid)) is not None]


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


async def test_a_server_in_an_actor_takes_weights_and_is_started_again_elsewhere(
    head_and_node: Nodes, tmp_path: Path
) -> None:
    nodes = head_and_node
    (first_node,) = nodes.others
    settings = ClusterSettings(ray=nodes.address)
    async with open_cluster(settings, log_folder=tmp_path / "logs", concurrency=4) as cluster:
        engine = cluster.make_engine(vllm_spec())
        try:
            older, weights = written(1.02, tmp_path / "5")
            await engine.publish(weights, 5)
            await assert_samples_from(engine, older, 5)
            newer, weights = written(0.98, tmp_path / "6")
            await engine.publish(weights, 6)
            await assert_samples_from(engine, newer, 6)
            (first,) = cluster.workers.all
            assert first.node.id == first_node.node_id
            on_first = await processes_of(cluster, first)
            assert len(on_first) > 1, "the actor, and the server below it"

            await _kill_in_the_middle_of_a_request(nodes, cluster, engine, first)
            await until(lambda: not [life for life in on_first if life.alive])

            nodes.add()
            await cluster.collect()
            await assert_samples_from(engine, newer, 6)
            second = cluster.workers.all[-1]
            assert second.node.id == nodes.others[0].node_id
            assert cluster.workers.lost == 1
            on_second = await processes_of(cluster, second)
        finally:
            await engine.close()
        await until(lambda: not [life for life in on_second if life.alive])
    assert "Application startup complete" in (tmp_path / "logs" / "engine-0.log").read_text()


def test_a_run_is_sampled_by_a_server_on_a_node(head_and_node: Nodes, tmp_path: Path) -> None:
    settings = RunSettings.model_validate(
        {
            "name": "run",
            "folder": tmp_path,
            "model": {"name": "tiny", "precision": "float32"},
            "engine": {"name": "vllm", "variables": VARIABLES},
            "rollout": {
                **{"tasks_per_step": 2, "num_chains": 2},
                **{"max_turns": 2, "max_tokens": 32, "context_length": 512},
            },
            "train": {"steps": 2},
            "eval": {"at_start": False, "at_end": False},
            "cluster": {"ray": head_and_node.address, "engine_cpus": 1},
        }
    )
    assert Trainer(source(), settings).run().steps == 2
    run = tmp_path / "run"
    for step in (1, 2):
        for chain in read_trajectories(run / "trajectories" / f"step_{step}.jsonl"):
            completions = [turn.completion for turn in chain.turns if turn.completion]
            assert {v for one in completions for v, _ in one.versions} == {step - 1}
    log = (run / "log.txt").read_text()
    assert "worker engine-0 starts on node" in log
    assert "log-probabilities of version 1 differ by" in log, "compared, and near enough"
    assert "was lost" not in log


async def _kill_in_the_middle_of_a_request(
    nodes: Nodes, cluster: RayCluster, engine: ReplicatedEngine, worker: ClusterWorker
) -> None:
    async with asyncio.TaskGroup() as group:
        request = group.create_task(_failure(engine))
        while not await _is_busy(cluster, worker):
            assert not request.done(), "it ended before the node could be killed"
        nodes.kill(worker.node.id)
    assert "was lost" in request.result()


async def _failure(engine: ReplicatedEngine) -> str:
    with pytest.raises(EngineError) as raised:
        await sampled(engine, "doomed", 480)
    return str(raised.value)


async def _is_busy(cluster: RayCluster, worker: ClusterWorker) -> bool:
    await cluster.collect()
    return worker.last_report is not None and worker.last_report.busy > 0
