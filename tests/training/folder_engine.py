"""An engine with weights of its own, which reads new ones from folders, as servers do."""

import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from tests.training.learner_cases import make_settings
from torch import Tensor

from agentfly.algorithms import make_algorithm
from agentfly.config import EngineSettings
from agentfly.engines import EngineSpec
from agentfly.engines.local import LocalEngine
from agentfly.engines.weight_forms import require_supported_form
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.policy import Policy
from agentfly.training.publisher import Publisher, publishing
from agentfly.training.sampler_check import SamplerCheck
from agentfly.types import (
    Completion,
    NamedTensors,
    SamplingParams,
    TrainableEngine,
    Weights,
    WeightsFolder,
)


class FolderEngine:
    """The local engine over a copy of a model."""

    samples_exactly = False
    shares_tensors = False
    takes: frozenset[type[Weights]] = frozenset({WeightsFolder})

    def __init__(self, model: Any, tokenizer: Any = None, **options: Any) -> None:
        self._inner = LocalEngine(copy.deepcopy(model), tokenizer, **options)
        self.context_length = self._inner.context_length
        self.published: list[tuple[Path, int]] = []

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, **options: Any
    ) -> Completion:
        return await self._inner.sample(prompt_ids, params, **options)

    def paused(self) -> AbstractAsyncContextManager[None]:
        return self._inner.paused()

    async def publish(self, weights: Weights, version: int) -> None:
        require_supported_form(self, weights)
        assert isinstance(weights, WeightsFolder)
        self.published.append((weights.path, version))
        tensors = self.read(weights.path)
        await self._inner.publish(NamedTensors(stream=tensors.items), version)

    def read(self, folder: Path) -> dict[str, Tensor]:
        return load_file(folder / "model.safetensors")

    async def close(self) -> None:
        await self._inner.close()


def make_folder_engine(spec: EngineSpec) -> FolderEngine:
    """Make it as the settings name it: `tests.training.folder_engine:make_folder_engine`."""
    return FolderEngine(
        spec.load("float32"), spec.tokenizer, version=spec.version, **spec.settings.options
    )


@asynccontextmanager
async def publishing_of(
    policy: Policy, engine: TrainableEngine, folder: Path, settings: EngineSettings | None = None
) -> AsyncIterator[Publisher]:
    """Publish a policy's weights as a run does, with its checks."""
    learner = LocalLearner(policy, make_algorithm("grpo"), make_settings())
    with SamplerCheck(learner, engine, settings or EngineSettings()) as check:
        async with publishing(learner, engine, folder, check.run_if_due) as publisher:
            yield publisher
