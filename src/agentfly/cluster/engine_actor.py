"""The actor that hosts one engine replica: a local engine, or a vLLM server on its node."""

import asyncio
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.cluster.weight_objects import WeightObjects
from agentfly.cluster.worker_actor import WorkerActor, WorkerReport, answered
from agentfly.config import EngineSettings
from agentfly.engines import EngineSpec, make_engine
from agentfly.errors import ConfigError, StaleWeightsError
from agentfly.models import load_model
from agentfly.runtime.clock import LoopClock
from agentfly.types import (
    Completion,
    NamedTensors,
    Request,
    SamplingParams,
    TrainableEngine,
    Weights,
    WeightsFolder,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecipe:
    """The part of an `EngineSpec` that can be sent to another machine."""

    folder: Path
    settings: EngineSettings
    context_length: float
    dtype: str | None
    version: int
    lora_rank: int | None
    cache_bytes: int
    deterministic: bool
    trust_remote_code: bool
    tokenizer: Any

    def spec(self, log_folder: Path) -> EngineSpec:
        """Return the spec of the engine on this node."""
        if not self.folder.is_dir():
            raise ConfigError(
                f"the model's folder {self.folder} can't be read on this node: put it on a file "
                "system that all nodes share, or at the same place on each of them"
            )
        return EngineSpec(
            folder=self.folder,
            load=self._load,
            settings=self.settings,
            tokenizer=self.tokenizer,
            context_length=self.context_length,
            dtype=self.dtype,
            version=self.version,
            lora_rank=self.lora_rank,
            cache_bytes=self.cache_bytes,
            deterministic=self.deterministic,
            log_folder=log_folder,
        )

    def _load(self, dtype: str) -> Any:
        import torch

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return load_model(
            self.folder,
            dtype=getattr(torch, dtype),
            device=device,
            trust_remote_code=self.trust_remote_code,
        )


class EngineActor(WorkerActor):
    """One engine, in the process of this actor or in a server that it starts."""

    def __init__(self, import_paths: Sequence[str], recipe: EngineRecipe) -> None:
        super().__init__(import_paths)
        self._recipe = recipe
        self._folder = tempfile.TemporaryDirectory(prefix="agentfly-engine-")
        self._engine: TrainableEngine | None = None
        self._pauses = AsyncExitStack()
        self._read: dict[Path, int] = {}
        self._under_way = 0
        self._torn = False
        """Whether a publish broke off: the weights are of no version."""

    @property
    def busy(self) -> int:
        """Number of requests under way."""
        return self._under_way

    async def open(self) -> bytes:
        """Load the model, or prepare the server; answer with its context length."""
        return await answered(self._open())

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, request: Request, seconds: float
    ) -> bytes:
        """Continue a prompt."""
        self.calls += 1
        return await answered(self._sample(prompt_ids, params, request, seconds))

    async def publish(self, weights: WeightObjects | Weights, version: int) -> bytes:
        """Sample from other weights."""
        return await answered(self._publish(weights, version))

    async def pause(self) -> bytes:
        """Sample no token until `resume`."""
        return await answered(self._pauses.enter_async_context(self._opened.paused()))

    async def resume(self) -> bytes:
        """Go on after all pauses."""
        return await answered(self._pauses.aclose())

    async def close(self) -> bytes:
        """End the engine, and the server if it has one."""
        return await answered(self._close())

    async def report(self) -> WorkerReport:
        """Return what happened since the last report, the lines of a server included."""
        self._take_server_lines()
        return await super().report()

    @property
    def _opened(self) -> TrainableEngine:
        assert self._engine is not None, "the driver opens it first"
        return self._engine

    async def _open(self) -> float:
        make = functools.partial(make_engine, self._recipe.spec(Path(self._folder.name)))
        # In a thread: the actor answers and reports while a model is loaded.
        self._engine = await asyncio.to_thread(make)
        return float(self._engine.context_length)

    async def _sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, request: Request, seconds: float
    ) -> Completion:
        self._under_way += 1
        try:
            completion = await self._opened.sample(
                prompt_ids, params, request=request, deadline=LoopClock().now() + seconds
            )
        finally:
            self._under_way -= 1
        if self._torn:
            raise StaleWeightsError("new weights came only in part")
        return completion

    async def _publish(self, weights: WeightObjects | Weights, version: int) -> None:
        engine = self._opened
        if isinstance(weights, WeightObjects):
            weights = NamedTensors(stream=weights.stream, in_place=True)
        elif isinstance(weights, WeightsFolder) and WeightsFolder not in engine.takes:
            weights = NamedTensors(stream=_stream_of(weights.path), in_place=True)
        try:
            await engine.publish(weights, version)
        except BaseException:
            self._torn = True
            raise

    async def _close(self) -> None:
        if self._engine is not None:
            await self._engine.close()
        self._folder.cleanup()

    def _take_server_lines(self) -> None:
        for path in sorted(Path(self._folder.name).glob("*.log")):
            for line in self._new_lines(path):
                self._output.add(line)

    def _new_lines(self, path: Path) -> list[str]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(whole)
        return whole.decode(errors="backslashreplace").splitlines()


def _stream_of(folder: Path) -> Callable[[], Iterator[tuple[str, Any]]]:
    """Return the tensors of a folder's files, read one by one."""

    def stream() -> Iterator[tuple[str, Any]]:
        from safetensors import safe_open

        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ConfigError(
                f"the folder {folder} with new weights can't be read on this node, or is empty: "
                "put the run's folder on a file system that all nodes share, or set "
                'cluster.weights = "objects"'
            )
        for file in files:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - it is no mapping
                    yield name, opened.get_tensor(name)

    return stream
