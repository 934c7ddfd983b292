"""Against a real vLLM, in its build for CPUs: `make test-vllm` installs it and runs these."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch
from safetensors.torch import load_file, save_file
from tests.patience import PATIENCE, until

from agentfly import Agent, RunResult
from agentfly.config import EngineSettings
from agentfly.engines import EngineSpec, make_engine
from agentfly.engines.vllm import VllmEngine, VllmServer, start_vllm
from agentfly.engines.vllm.service import VllmService
from agentfly.models import load_model, resolve_model
from agentfly.runtime.clock import LoopClock
from agentfly.testing import check_engine, check_trainable_engine
from agentfly.tools import calculator
from agentfly.types import (
    Completion,
    Event,
    OnToken,
    Request,
    SamplingParams,
    Seed,
    StopReason,
    TokenSampled,
    WeightsFolder,
)

PYTHON = os.environ.get("AGENTFLY_VLLM_PYTHON")
"""The interpreter of an environment that has vLLM: it pins other versions than we do."""

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(PYTHON is None, reason="AGENTFLY_VLLM_PYTHON is not set: make test-vllm"),
]

CLOSE = 2e-3
"""Bound on the difference of log-probabilities: float32 on both sides, summed in other orders."""


async def start(folder: Path) -> VllmServer:
    return await start_vllm(
        resolve_model("tiny"),
        log=folder / "vllm.log",
        command=(str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model"),
        # A seeded request whose prompt is prefilled in parts ends this build's engine: hence the
        # room for all prompts that wait at once.
        arguments=(
            *("--enforce-eager", "--dtype", "float32", "--max-model-len", "512"),
            *("--max-num-batched-tokens", "16384"),
        ),
        environment={"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"},
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VllmServer]:
    async with await start(tmp_path_factory.mktemp("vllm")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def engine(server: VllmServer, tmp_path: Path) -> AsyncIterator[VllmEngine]:
    """An engine over the server, whose weights are those of `tiny` as version 1."""
    made = VllmEngine(server.endpoint, logprobs="processed", context_length=512)
    await made.publish(written(tiny(), tmp_path), 1)
    yield made
    await made.close()


def tiny(scale: float = 1.0) -> Any:
    """Return the model, all of its weights multiplied by something."""
    model = load_model(resolve_model("tiny"), dtype=torch.float32, device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def written(model: Any, folder: Path) -> WeightsFolder:
    """Write all tensors of a state dict, the head of tied embeddings included."""
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    return WeightsFolder(path=folder)


def plain_logprobs(model: Any, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
    ids = torch.tensor([[*prompt, *tokens]])
    with torch.no_grad():
        logprobs = torch.log_softmax(model(ids).logits[0].float(), -1)
    return [logprobs[len(prompt) - 1 + i, token].item() for i, token in enumerate(tokens)]


async def sample(
    engine: VllmEngine, chain: int, max_tokens: int = 32, on_token: OnToken | None = None
) -> Completion:
    request = Request(
        chain_id=f"t/0/{chain}", group_id="t/0", turn=0, seed=Seed(7).child(chain), priority=0
    )
    return await engine.sample(
        prompt(chain),
        SamplingParams(max_tokens=max_tokens),
        request=request,
        deadline=LoopClock().now() + PATIENCE,
        on_token=on_token,
    )


def noting(tokens: list[int]) -> OnToken:
    return lambda token, _: tokens.append(token)


def prompt(chain: int) -> list[int]:
    return [1, *(3 + (7 * chain + 11 * i) % 400 for i in range(20 + chain))]


async def test_ids_and_logprobs_are_those_of_transformers(engine: VllmEngine) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sample(engine, chain)) for chain in range(16)]
    model = tiny()
    for chain, task in enumerate(tasks):
        completion = task.result()
        assert completion.versions == ((1, len(completion.token_ids)),)
        expected = plain_logprobs(model, prompt(chain), completion.token_ids)
        assert list(completion.logprobs) == pytest.approx(expected, abs=CLOSE)


async def test_a_publish_in_the_middle_of_completions(engine: VllmEngine, tmp_path: Path) -> None:
    """Each token is of the version that it names: old before the publish, new after it."""
    heard: list[list[int]] = [[] for _ in range(4)]
    folder = tmp_path / "new"
    folder.mkdir()
    before, after = tiny(), tiny(scale=1.02)
    weights = written(after, folder)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(sample(engine, chain, 200, on_token=noting(heard[chain])))
            for chain in range(4)
        ]
        await until(lambda: all(len(tokens) >= 3 for tokens in heard))
        await engine.publish(weights, 2)
    spanning = 0
    for chain, task in enumerate(tasks):
        completion = task.result()
        old = dict(completion.versions).get(1, 0)
        spanning += 0 < old < len(completion.token_ids)
        first = plain_logprobs(before, prompt(chain), completion.token_ids)[:old]
        second = plain_logprobs(after, prompt(chain), completion.token_ids)[old:]
        assert list(completion.logprobs) == pytest.approx(first + second, abs=CLOSE)
    assert spanning, "no completion was under way when the weights changed"


async def test_it_keeps_the_contract_of_an_engine(server: VllmServer) -> None:
    await check_engine(VllmEngine(server.endpoint, logprobs="processed"), prompt(0))


async def test_joined_it_keeps_the_contract_of_a_trainable_engine(
    server: VllmServer, tmp_path: Path
) -> None:
    """The server is left with other weights: the fixture `engine` publishes its own."""
    spec = EngineSpec(
        folder=resolve_model("tiny"),
        load=lambda dtype: None,
        settings=EngineSettings(name="vllm", urls=(server.endpoint.url,)),
        context_length=512,
    )
    joined = make_engine(spec)
    assert isinstance(joined, VllmService)
    # Tests before this one have left a version of their own.
    await joined.publish(scaled(tmp_path, 0), 0)
    publish_as = partial(scaled, tmp_path)
    await check_trainable_engine(joined, prompt(0), publish_as, torn=without_a_tensor(tmp_path))


def scaled(parent: Path, version: int) -> WeightsFolder:
    """Write weights that differ from version to version."""
    folder = parent / f"version_{version}"
    folder.mkdir()
    return written(tiny(scale=1 + 0.01 * version), folder)


def without_a_tensor(parent: Path) -> WeightsFolder:
    """Write other weights with the head, but without the last layer's norm."""
    folder = parent / "torn"
    folder.mkdir()
    torn = written(tiny(scale=-1.0), folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return torn


async def test_an_agent_speaks_through_a_server_of_its_own_that_is_killed() -> None:
    """Chains under way end with a typed cause; the next run starts the server again."""
    settings = EngineSettings(name="vllm", dtype="float32", concurrency=8)
    sampling = SamplingParams(max_tokens=48)
    async with Agent("tiny", tools=[calculator], sampling=sampling, engine=settings) as agent:
        for_all_chains_exact(await agent.run("What is 23*41?", num_chains=4))
        service = agent.model.engine
        assert isinstance(service, VllmService)
        assert isinstance(service._server, VllmServer)
        doomed = service._server.pid

        def kill(event: Event) -> None:
            if isinstance(event, TokenSampled):
                with suppress(ProcessLookupError):
                    os.kill(doomed, signal.SIGKILL)

        broken = await agent.run("What is 23*41?", num_chains=4, retries=0, on_event=kill)
        failed = [chain for chain in broken.trajectories if chain.error is not None]
        assert failed
        assert {chain.stop for chain in failed} == {StopReason.ENGINE_FAILED}
        assert all("exited with code -9" in str(chain.error) for chain in failed)
        for_all_chains_exact(await agent.run("What is 57*83?", num_chains=4))


def for_all_chains_exact(result: RunResult) -> None:
    model = tiny()
    for chain in result.trajectories:
        assert chain.error is None
        turn = chain.turns[0]
        assert turn.completion is not None
        expected = plain_logprobs(model, turn.context_ids, turn.completion.token_ids)
        assert list(turn.completion.logprobs) == pytest.approx(expected, abs=CLOSE)
