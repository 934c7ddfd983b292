"""Comparison of the engine's log-probabilities with the learner's; a mismatch ends the run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.folder_engine import FolderEngine, publishing_of
from tests.training.learner_cases import make_settings
from torch import Tensor, nn

from agentfly.algorithms import make_algorithm
from agentfly.config import EngineSettings, LoraSettings, ModelSettings
from agentfly.engines import ReplicatedEngine
from agentfly.errors import EngineError, RunError
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.policy import Policy
from agentfly.training.sampler_check import SamplerCheck
from agentfly.types import NamedTensors, Weights

ALWAYS = EngineSettings(check_every=1)


def policy(**choices: Any) -> Policy:
    return Policy.load(
        ModelSettings(name="tiny", device="cpu", **{"precision": "float32", **choices})
    )


def change(trained: Policy) -> None:
    """Train every weight a little, each differently."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trained.trained:
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.05 * noise * parameter.std() + 0.01 * noise)


class Forgetful(FolderEngine):
    """Leaves some tensors as they were, as a server does that finds no place for their names."""

    def __init__(self, model: Any, forgets: str, **options: Any) -> None:
        super().__init__(untied(model), **options)
        self._forgets = forgets
        self._old = {n: t.clone() for n, t in model.state_dict().items() if forgets in n}

    def read(self, folder: Path) -> dict[str, Tensor]:
        return {**super().read(folder), **self._old}


def untied(model: Any) -> Any:
    import copy

    own = copy.deepcopy(model)
    own.config.tie_word_embeddings = False
    own.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    return own


@pytest.mark.parametrize(
    ("forgets", "suspect"),
    [
        ("lm_head", "Suspect lm_head: it is tied to the embeddings"),
        ("layers.1.", r"Suspect model\.layers\.1\. With"),
    ],
)
async def test_the_layer_that_kept_its_weights_is_named(
    tmp_path: Path, forgets: str, suspect: str
) -> None:
    trained = policy()
    engine = Forgetful(trained.causal_lm, forgets)
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        await publisher.publish_first(0)
        change(trained)
        with pytest.raises(RunError, match=f"does not sample from version 1.*{suspect}"):
            await publisher.publish(1)
    await engine.close()


async def test_an_engine_that_takes_everything_agrees(tmp_path: Path) -> None:
    trained = policy()
    engine = FolderEngine(trained.causal_lm)
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        await publisher.publish_first(0)
        for version in (1, 2, 3):
            change(trained)
            await publisher.publish(version)
    assert [version for _, version in engine.published][-3:] == [1, 2, 3]
    await engine.close()


@pytest.fixture
def no_least_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare by rounding alone: this small model rounds by less than the least bound."""
    monkeypatch.setattr("agentfly.training.sampler_check.ROUNDED_BOUND", 0.0)


@pytest.mark.usefixtures("no_least_bound")
async def test_an_engine_may_round_about_as_much_as_the_learner(tmp_path: Path) -> None:
    trained = policy(precision="bfloat16")
    engine = FolderEngine(trained.causal_lm, dtype=torch.bfloat16)
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        await publisher.publish_first(0)
        change(trained)
        await publisher.publish(1)
    assert engine.published[-1][1] == 1
    await engine.close()


@pytest.mark.usefixtures("no_least_bound")
async def test_a_stale_head_stands_out_from_rounding(tmp_path: Path) -> None:
    trained = policy(precision="bfloat16")
    engine = Forgetful(trained.causal_lm, "lm_head", dtype=torch.bfloat16)
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        await publisher.publish_first(0)
        change(trained)
        with pytest.raises(RunError, match="Suspect lm_head"):
            await publisher.publish(1)
    await engine.close()


async def test_another_model_is_reported_before_any_training(tmp_path: Path) -> None:
    trained = policy()

    class Elsewhere(FolderEngine):
        def read(self, folder: Path) -> dict[str, Tensor]:
            return {n: t * 1.05 for n, t in super().read(folder).items()}

    engine = Elsewhere(trained.causal_lm)
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        with pytest.raises(RunError, match="No single layer explains it: does the engine have an"):
            await publisher.publish_first(0)
    await engine.close()


class TensorEngine(FolderEngine):
    """Takes a stream of tensors; of adapters it gets the sum."""

    takes = frozenset({NamedTensors})

    async def publish(self, weights: Weights, version: int) -> None:
        await self._inner.publish(weights, version)


async def test_merged_adapters_agree_and_stale_ones_are_named(tmp_path: Path) -> None:
    plain, trained = policy(), policy(lora=LoraSettings(rank=2))
    engine = TensorEngine(plain.causal_lm)
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        await publisher.publish_first(0)
        change(trained)
        await publisher.publish(1)
        with torch.no_grad():
            for name, parameter in trained.causal_lm.named_parameters():
                if "layers.2." in name and "lora_B" in name:
                    parameter.zero_()
        stale = [(tensor.name, tensor.read()) for tensor in trained.tensors()]
        change(trained)
        await engine.publish(NamedTensors(stream=lambda: stale), 2)
    learner = LocalLearner(trained, make_algorithm("grpo"), make_settings())
    with (
        SamplerCheck(learner, engine, ALWAYS) as check,
        pytest.raises(RunError, match="does not sample from"),
    ):
        await check.run_if_due(2)
    await engine.close()


async def test_the_first_two_versions_are_compared_and_then_every_so_many(tmp_path: Path) -> None:
    class Counting(FolderEngine):
        sampled = 0

        async def sample(self, *args: Any, **options: Any) -> Any:
            self.sampled += 1
            return await super().sample(*args, **options)

    trained = policy()
    engine, seen = Counting(trained.causal_lm), []
    settings = EngineSettings(check_every=4)
    async with publishing_of(trained, engine, tmp_path / "published", settings) as publisher:
        await publisher.publish_first(2)
        for version in range(3, 9):
            before = engine.sampled
            await publisher.publish(version)
            seen += [version] if engine.sampled > before else []
    assert seen == [3, 4, 8]
    await engine.close()


async def test_an_engine_that_fails_is_asked_again_and_then_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(FolderEngine):
        failures = 6

        async def sample(self, *args: Any, **options: Any) -> Any:
            self.failures -= 1
            if self.failures >= 0:
                raise EngineError("the server died")
            return await super().sample(*args, **options)

    trained = policy()
    engine = Failing(trained.causal_lm)
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        await publisher.publish_first(0)
        assert engine.failures < 0, "asked again, it answered"
        engine.failures = 100
        await publisher.publish(1)
    assert "are compared after a later step" in caplog.text
    await engine.close()


async def test_a_replica_that_came_back_is_compared_again(tmp_path: Path) -> None:
    class Failing(FolderEngine):
        failing = True
        sampled = 0

        async def sample(self, *args: Any, **options: Any) -> Any:
            if self.failing:
                raise EngineError("the server died")
            self.sampled += 1
            return await super().sample(*args, **options)

    trained = policy()
    first = Failing(trained.causal_lm)
    engine = ReplicatedEngine([first, FolderEngine(trained.causal_lm)])
    async with publishing_of(trained, engine, tmp_path / "published", ALWAYS) as publisher:
        await publisher.publish_first(0)
        first.failing = False
        await publisher.publish(1)
    assert first.sampled
    await engine.close()
