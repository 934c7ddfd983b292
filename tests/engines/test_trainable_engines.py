"""Engines that a learner publishes to keep one contract, and the checker finds those that don't."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engines.local_models import llama, named, random_ids
from tests.engines.test_vllm_engine import PROMPT, serving
from tests.engines.test_vllm_weights import weights_folder
from tests.engines.vllm_standin import FakeVllm

from agentfly.engines import ReplicatedEngine
from agentfly.engines.local import LocalEngine
from agentfly.testing import ConformanceError, check_trainable_engine
from agentfly.types import NamedTensors, SharedTensors, Weights, WeightsFolder


def shared(version: int) -> Weights:
    return SharedTensors()


def cut_short(model: Any) -> NamedTensors:
    """A stream of other weights that breaks half-way."""

    def stream() -> Iterator[tuple[str, Any]]:
        tensors = list(model.state_dict().items())
        for name, tensor in tensors[: len(tensors) // 2]:
            yield name, -tensor
        raise ConnectionError("the learner died")

    return NamedTensors(stream=stream)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
async def test_the_local_engine_keeps_the_contract(dtype: Any) -> None:
    model = llama()
    await check_trainable_engine(LocalEngine(model, dtype=dtype), random_ids(9), shared)
    engine = LocalEngine(model, dtype=dtype)
    await check_trainable_engine(
        engine,
        random_ids(9),
        lambda version: named(model.state_dict()),
        torn=cut_short(model),
    )
    assert engine.samples_exactly is (dtype is None)


async def test_replicas_keep_the_contract() -> None:
    model = llama()
    engine = ReplicatedEngine([LocalEngine(model), LocalEngine(model)])
    assert engine.samples_exactly
    await check_trainable_engine(engine, random_ids(9), shared)


async def test_vllm_keeps_the_contract(tmp_path: Path) -> None:
    folder, cut = weights_folder(tmp_path, "lm_head.weight"), tmp_path / "cut"
    cut.mkdir()
    (cut / "model.safetensors").write_bytes(b"\x40")
    torn = WeightsFolder(path=cut)
    async with serving(FakeVllm(seconds_per_token=0.01)) as (engine, _):
        await check_trainable_engine(engine, PROMPT, lambda version: folder, torn=torn)


class NeverPauses(LocalEngine):
    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        yield


class ForgetsTheVersion(LocalEngine):
    async def publish(self, weights: Weights, version: int) -> None:
        await super().publish(weights, 0)


class TakesAnything(LocalEngine):
    async def publish(self, weights: Weights, version: int) -> None:
        await super().publish(SharedTensors(), version)


class KeepsHalf(LocalEngine):
    """Takes tensor by tensor, and keeps what it has when the stream breaks."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.tensors = dict(model.state_dict())

    async def publish(self, weights: Weights, version: int) -> None:
        if isinstance(weights, NamedTensors):
            with suppress(ConnectionError):
                self.tensors.update(weights.stream())
            weights = NamedTensors(stream=self.tensors.items)
        await super().publish(weights, version)


async def test_the_checker_finds_an_engine_that_samples_from_half_an_update() -> None:
    model = llama()
    with pytest.raises(ConformanceError, match="a torn update was sampled from"):
        await check_trainable_engine(
            KeepsHalf(model), random_ids(9), shared, torn=cut_short(llama())
        )


@pytest.mark.parametrize(
    ("broken", "finding"),
    [
        (NeverPauses, "tokens were sampled while it was paused"),
        (ForgetsTheVersion, r"after publish\(…, 1\) tokens name versions"),
        (TakesAnything, "publishing None"),
    ],
)
async def test_the_checker_finds(broken: Callable[[Any], LocalEngine], finding: str) -> None:
    with pytest.raises(ConformanceError, match=finding):
        await check_trainable_engine(broken(llama()), random_ids(9), shared)
