"""Engine replicas in actors: the learner's log-probabilities, fail-over, and weights in chunks."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cluster.conftest import Nodes
from tests.resources.pool_environments import soon

from agentfly.cluster import RayCluster, open_cluster, weight_objects
from agentfly.config import ClusterSettings, EngineSettings
from agentfly.engines import EngineSpec, ReplicatedEngine
from agentfly.models import load_model, resolve_model
from agentfly.types import (
    Completion,
    NamedTensors,
    Request,
    SamplingParams,
    Seed,
    WeightsFolder,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PROMPT = list(range(40, 60))


@asynccontextmanager
async def engine_of(
    nodes: Nodes, folder: Path, **settings: Any
) -> AsyncIterator[tuple[RayCluster, ReplicatedEngine]]:
    chosen = ClusterSettings(ray=nodes.address, **settings)
    async with open_cluster(chosen, log_folder=folder, concurrency=8) as cluster:
        spec = EngineSpec(
            folder=resolve_model("tiny"),
            load=lambda _: None,
            settings=EngineSettings(replicas=2, dtype="float32"),
            cache_bytes=2**26,
        )
        engine = cluster.make_engine(spec)
        try:
            yield cluster, engine
        finally:
            await engine.close()


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model(resolve_model("tiny"), dtype=torch.float32, device="cpu")


def shifted(model: Any) -> dict[str, torch.Tensor]:
    """Return other weights than those in the folder, so that only a publish brings them."""
    torch.manual_seed(1)
    weights = {
        name: tensor + 0.02 * torch.randn_like(tensor) if tensor.ndim > 1 else tensor.clone()
        for name, tensor in model.state_dict().items()
    }
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]  # they are tied
    return weights


async def sampled(engine: ReplicatedEngine, chain: str, tokens: int = 8) -> Completion:
    params = SamplingParams(max_tokens=tokens)
    request = Request(chain_id=chain, group_id="g", turn=0, seed=Seed(3))
    return await engine.sample(PROMPT, params, request=request, deadline=soon(120))


def logprobs_of(model: Any, weights: dict[str, torch.Tensor], completion: Completion) -> Any:
    ids = torch.tensor([PROMPT + list(completion.token_ids)])
    with torch.no_grad():
        logits = torch.func.functional_call(model, weights, (ids,)).logits
    spoken = ids[0, len(PROMPT) :]
    return logits[0, len(PROMPT) - 1 : -1].log_softmax(-1).gather(1, spoken[:, None])[:, 0]


@pytest.mark.parametrize("way", ["objects", "folder"])
async def test_replicas_sample_from_what_was_published(
    nodes: Nodes, tmp_path: Path, model: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_objects, "CHUNK_BYTES", 2**18)
    weights = shifted(model)
    async with engine_of(nodes, tmp_path, weights=way) as (cluster, engine):
        if way == "objects":
            await engine.publish(NamedTensors(stream=lambda: iter(weights.items())), 5)
        else:
            await engine.publish(WeightsFolder(path=_written(weights, tmp_path / "w")), 5)
        async with asyncio.TaskGroup() as group:
            chains = [group.create_task(sampled(engine, f"c{n}")) for n in range(4)]
        assert len({worker.node.id for worker in cluster.workers.all}) == 2
        for chain in chains:
            completion = chain.result()
            assert completion.versions == ((5, len(completion.token_ids)),)
            expected = logprobs_of(model, weights, completion)
            assert torch.allclose(torch.tensor(completion.logprobs), expected, atol=1e-4)


def _written(weights: dict[str, torch.Tensor], folder: Path) -> Path:
    from safetensors.torch import save_file

    folder.mkdir()
    save_file({name: t.clone() for name, t in weights.items()}, folder / "model.safetensors")
    return folder


async def test_chains_of_a_dead_node_fail_over_and_its_engine_returns(
    nodes: Nodes, tmp_path: Path, model: Any
) -> None:
    weights = shifted(model)
    async with engine_of(nodes, tmp_path) as (cluster, engine):
        await engine.publish(NamedTensors(stream=lambda: iter(weights.items())), 1)
        other = {node.node_id for node in nodes.others}
        victim = next(worker for worker in cluster.workers.all if worker.node.id in other)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(sampled(engine, f"c{n}", 200)) for n in range(4)]
            await asyncio.sleep(0)
            nodes.kill(victim.node.id)
        assert all(run.result().token_ids for run in running)
        while victim.lost is None:
            async with asyncio.TaskGroup() as group:
                for n in range(8):
                    group.create_task(sampled(engine, f"d{n}"))
        # The lost one starts on another node, and gets the same version again.
        while engine.troubles:
            await sampled(engine, "e")
            await asyncio.sleep(0.2)
        living = [worker for worker in cluster.workers.all if worker.lost is None]
        assert len(living) == 2
        assert all(worker.node.id != victim.node.id for worker in living)
        for number in range(4):
            completion = await sampled(engine, f"f{number}")
            assert completion.versions[0][0] == 1
            expected = logprobs_of(model, weights, completion)
            assert torch.allclose(torch.tensor(completion.logprobs), expected, atol=1e-4)
    nodes.add()


def test_chunks_are_bounded_and_keep_every_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_objects, "CHUNK_BYTES", 1000)
    tensors = {f"t{n}": torch.arange(n * 10, dtype=torch.bfloat16) for n in range(1, 40)}

    def packed() -> Iterator[weight_objects.PackedTensor]:
        return (weight_objects._packed(name, tensor) for name, tensor in tensors.items())

    chunks = list(weight_objects.chunked(packed()))
    assert all(sum(one.data.nbytes for one in chunk) <= 1000 for chunk in chunks)
    back = {one.name: weight_objects._unpacked(one) for chunk in chunks for one in chunk}
    assert list(back) == list(tensors)
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
