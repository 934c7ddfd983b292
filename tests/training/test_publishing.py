"""Weights reach an engine in the form that it takes, whole, and leave nothing behind."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training.folder_engine import FolderEngine, publishing_of

from agentfly.config import LoraSettings, ModelSettings
from agentfly.engines.local import LocalEngine
from agentfly.errors import ConfigError
from agentfly.training.learner.policy import Policy
from agentfly.types import AdapterFolder, NamedTensors, Weights


def policy(lora: LoraSettings | None = None) -> Policy:
    chosen = ModelSettings(name="tiny", device="cpu", precision="float32", lora=lora)
    return Policy.load(chosen)


def changed(policy: Policy) -> None:
    with torch.no_grad():
        for number, parameter in enumerate(policy.trained):
            parameter.add_(0.01 * (number + 1))


class Takes(LocalEngine):
    """Notes what is published, in forms of the test's choice."""

    def __init__(self, model: Any, *forms: type[Weights]) -> None:
        super().__init__(model)
        self.forms = frozenset(forms)
        self.noted: list[Weights] = []

    @property
    def takes(self) -> frozenset[type[Weights]]:
        return self.forms

    async def publish(self, weights: Weights, version: int) -> None:
        self.noted.append(weights)


async def test_a_folder_holds_all_weights_and_the_tied_head(tmp_path: Path) -> None:
    trained = policy()
    assert trained.causal_lm.config.tie_word_embeddings
    engine = FolderEngine(trained.causal_lm)
    async with publishing_of(trained, engine, tmp_path / "published") as publisher:
        await publisher.publish_first(0)
        changed(trained)
        await publisher.publish(1)
        assert [path.name for path in (tmp_path / "published").iterdir()] == ["version_1"]
        written = load_file(engine.published[-1][0] / "model.safetensors")
        own = trained.causal_lm.state_dict()
        assert written.keys() == own.keys()
        assert all(torch.equal(written[name], own[name]) for name in own)
        assert "lm_head.weight" in written
    assert not (tmp_path / "published").exists()
    await engine.close()


async def test_a_relative_folder_keeps_the_current_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that starts again needs it."""
    monkeypatch.chdir(tmp_path)
    trained = policy()
    engine = FolderEngine(trained.causal_lm)
    async with publishing_of(trained, engine, Path("published")) as publisher:
        await publisher.publish(0)
        await publisher.publish(1)
        path, _ = engine.published[-1]
        assert path.is_absolute()
        assert [found.name for found in path.parent.iterdir()] == ["version_1"]
    await engine.close()


async def test_the_learners_own_tensors_need_no_folder(tmp_path: Path) -> None:
    trained = policy()
    engine = LocalEngine(trained.causal_lm)
    async with publishing_of(trained, engine, tmp_path / "published") as publisher:
        await publisher.publish_first(0)
        await publisher.publish(1)
        assert not (tmp_path / "published").exists()
    await engine.close()


async def test_adapters_go_alone_or_merged_by_what_the_engine_takes(tmp_path: Path) -> None:
    trained = policy(LoraSettings(rank=2))
    changed(trained)
    engine = Takes(trained.causal_lm, AdapterFolder, NamedTensors)
    async with publishing_of(trained, engine, tmp_path / "published") as publisher:
        await publisher.publish(1)
        (adapter,) = engine.noted
        assert isinstance(adapter, AdapterFolder)
        assert (adapter.path / "adapter_model.safetensors").exists()
    engine.forms = frozenset({NamedTensors})
    async with publishing_of(trained, engine, tmp_path / "published") as publisher:
        await publisher.publish(2)
        stream = engine.noted[-1]
        assert isinstance(stream, NamedTensors)
        names = dict(stream.stream())
        assert "lm_head.weight" in names
        assert not any("lora" in name for name in names)
    await engine.close()


async def test_an_engine_that_takes_nothing_fitting_is_refused(tmp_path: Path) -> None:
    trained = policy()
    engine = Takes(trained.causal_lm, AdapterFolder)
    with pytest.raises(ConfigError, match="it takes AdapterFolder, expected one of SharedTensors"):
        async with publishing_of(trained, engine, tmp_path):
            pass
    await engine.close()


async def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    trained, left = policy(), tmp_path / "published" / "version_7"
    left.mkdir(parents=True)
    engine = FolderEngine(trained.causal_lm)
    async with publishing_of(trained, engine, tmp_path / "published"):
        assert not left.exists()
    await engine.close()
