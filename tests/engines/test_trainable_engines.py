"""Engines that a learner publishes to keep one contract, and the checker finds those that don't."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engines.local_models import llama, named, random_ids
from tests.engines.test_vllm_engine import PROMPT, serving
from tests.engines.test_vllm_weights import WHOLE, torn_folder, weights_folder
from tests.engines.vllm_standin import FakeVllm

from agentfly.engines import ReplicatedEngine
from agentfly.engines.local import LocalEngine
from agentfly.engines.weight_forms import require_supported_form
from agentfly.testing import ConformanceError, check_trainable_engine, run_in_virtual_time
from agentfly.types import (
    Completion,
    FinishReason,
    NamedTensors,
    OnToken,
    Request,
    SamplingParams,
    SharedTensors,
    Weights,
)


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


@pytest.mark.parametrize("how", ["lacks a tensor", "is cut"])
async def test_vllm_keeps_the_contract(tmp_path: Path, how: str) -> None:
    folder, torn = weights_folder(tmp_path, *WHOLE), torn_folder(tmp_path / "torn", how)
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


class TimedEngine:
    """Takes a set time for each token, and keeps the contract."""

    context_length = 1000.0
    takes: frozenset[type[Weights]] = frozenset({SharedTensors})
    samples_exactly = True
    shares_tensors = True
    seconds_per_token = 0.005
    delivery_seconds = 0.0
    """Time from sampling a token to `on_token`."""

    def __init__(self) -> None:
        self.version = 0
        self._go = asyncio.Event()
        self._go.set()

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        await self._go.wait()
        versions = list[int]()
        for _ in range(params.max_tokens):
            await asyncio.sleep(self.seconds_per_token)
            await self.wait_between_tokens()
            versions.append(self.version)
            if on_token is not None:
                later = asyncio.get_running_loop().call_later
                later(self.delivery_seconds, on_token, 7, -1.0)
        await asyncio.sleep(self.delivery_seconds)
        return Completion(
            token_ids=(7,) * len(versions),
            logprobs=(-1.0,) * len(versions),
            versions=tuple((v, len(list(run))) for v, run in groupby(self.reported(versions))),
            finish_reason=FinishReason.LENGTH,
        )

    async def wait_between_tokens(self) -> None:
        await self._go.wait()

    def reported(self, versions: list[int]) -> list[int]:
        return versions

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    async def publish(self, weights: Weights, version: int) -> None:
        require_supported_form(self, weights)
        self.version = version

    async def close(self) -> None:
        pass


class DeliversLate(TimedEngine):
    delivery_seconds = 0.1


class Slow(TimedEngine):
    seconds_per_token = 0.25


class EndsRequestsFirst(TimedEngine):
    """A pause begins when the completions under way have ended."""

    under_way = 0

    async def sample(self, *args: Any, **keywords: Any) -> Completion:
        await self._go.wait()
        self.under_way += 1
        try:
            return await super().sample(*args, **keywords)
        finally:
            self.under_way -= 1

    async def wait_between_tokens(self) -> None:
        pass

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        async with super().paused():
            while self.under_way:  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(0.01)
            yield


class HoldsBackOnlyNewRequests(TimedEngine):
    async def wait_between_tokens(self) -> None:
        pass


class SlowAndNeverPauses(Slow):
    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        yield


class NamesAllByTheLastVersion(TimedEngine):
    def reported(self, versions: list[int]) -> list[int]:
        return [self.version] * len(versions)


class NamesAllByTheFirstVersion(TimedEngine):
    def reported(self, versions: list[int]) -> list[int]:
        return versions[:1] * len(versions)


class ChangesTheVersionLate(TimedEngine):
    """Names tokens by a new version only a while after it was published."""

    async def publish(self, weights: Weights, version: int) -> None:
        require_supported_form(self, weights)
        asyncio.get_running_loop().call_later(0.3, setattr, self, "version", version)


@pytest.mark.parametrize("engine", [TimedEngine, DeliversLate, Slow, EndsRequestsFirst])
def test_the_checker_accepts_engines_of_any_speed(engine: Callable[[], TimedEngine]) -> None:
    run_in_virtual_time(check_timed(engine))


@pytest.mark.parametrize(
    ("broken", "finding"),
    [
        (HoldsBackOnlyNewRequests, "sampled while it was paused: a completion went on to its end"),
        (SlowAndNeverPauses, "tokens were sampled while it was paused"),
        (NamesAllByTheLastVersion, r"name versions \(\(1, \d+\),\), expected 0, then 1"),
        (NamesAllByTheFirstVersion, r"name versions \(\(1, \d+\),\), expected 1 for those before"),
        (ChangesTheVersionLate, r"after publish\(…, 1\) tokens name versions|expected 1 for those"),
    ],
)
def test_the_checker_finds_at_any_speed(broken: Callable[[], TimedEngine], finding: str) -> None:
    with pytest.raises(ConformanceError, match=finding):
        run_in_virtual_time(check_timed(broken))


async def check_timed(engine: Callable[[], TimedEngine]) -> None:
    await check_trainable_engine(engine(), [1, 2], shared)
