"""The local engine, which notes what it samples."""

import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from agentfly.engines import EngineSpec
from agentfly.engines.local.engine import make_local
from agentfly.types import Completion, SamplingParams, TrainableEngine, Weights


class NotingEngine:
    """Passes everything on."""

    def __init__(self, inner: TrainableEngine) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, **options: Any
    ) -> Completion:
        _note()
        return await self._inner.sample(prompt_ids, params, **options)

    def paused(self) -> AbstractAsyncContextManager[None]:
        return self._inner.paused()

    async def publish(self, weights: Weights, version: int) -> None:
        await self._inner.publish(weights, version)

    async def close(self) -> None:
        await self._inner.close()


def _note() -> None:
    with Path(os.environ["VOWEL_GAME_NOTES"]).open("a") as notes:
        notes.write("engine\n")


def make_noting(spec: EngineSpec) -> NotingEngine:
    """Make the engine that `[engine] name = "noting"` stands for."""
    return NotingEngine(make_local(spec))
