"""The driver's side of an engine replica that is an actor on some node."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from agentfly.cluster.engine_actor import EngineActor, EngineRecipe
from agentfly.cluster.nodes import Need
from agentfly.cluster.weight_objects import WeightObjects, WeightStore
from agentfly.cluster.worker import ClusterWorker, WorkerLostError, Workers
from agentfly.config import ClusterSettings
from agentfly.engines import EngineSpec
from agentfly.engines.factory import accepted_weights
from agentfly.engines.weight_forms import require_supported_form
from agentfly.errors import (
    AgentFlyError,
    DeadlineError,
    EngineError,
    EnvError,
    StaleWeightsError,
    boundary,
)
from agentfly.resources.placement.instance import in_manager_thread
from agentfly.runtime.clock import LoopClock, in_seconds
from agentfly.types import (
    Completion,
    NamedTensors,
    OnToken,
    Request,
    SamplingParams,
    Weights,
    WeightsFolder,
)

ANSWER_SECONDS = 5.0
"""Added to a time limit that the node itself keeps, for the way there and back."""
CONTROL_SECONDS = 60.0
"""Time limit of pausing, going on and closing."""


class ActorEngine:
    """A trainable engine in an actor, which is started again elsewhere after its node died.

    It starts with the first publish. After a loss it is one that lacks the current weights: the
    replicas' engine publishes to it again, and that starts it on another node.
    """

    reports_start = False
    samples_exactly = False
    shares_tensors = False

    def __init__(
        self,
        recipe: EngineRecipe,
        workers: Workers,
        settings: ClusterSettings,
        store: WeightStore,
        *,
        takes: frozenset[type[Weights]],
        need: Need,
    ) -> None:
        """Prepare; see `RayCluster.make_engine`."""
        self.takes = takes
        self.tokenizer = recipe.tokenizer
        self._recipe = recipe
        self._workers = workers
        self._settings = settings
        self._store = store
        self._need = need
        self._clock = LoopClock()
        self._worker: ClusterWorker | None = None

    @property
    def context_length(self) -> float:
        """Longest sequence that is needed of it."""
        return self._recipe.context_length

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Continue the prompt on its node. `on_token` is called at the end, for all tokens."""
        seconds = deadline - self._clock.now()
        # Callbacks can't be sent to another machine.
        plain = replace(request, on_started=None)
        worker = self._running()
        try:
            completion: Completion = await worker.call(
                *("sample", list(prompt_ids), params, plain, seconds),
                seconds=max(0.0, seconds) + ANSWER_SECONDS,
            )
        except WorkerLostError as error:
            raise StaleWeightsError(str(error)) from error
        except DeadlineError:
            raise
        except TimeoutError as error:
            raise DeadlineError(
                f"the completion of chain {request.chain_id!r}, turn {request.turn}, took longer "
                f"than its {in_seconds(seconds)}"
            ) from error
        if on_token is not None:
            for token, logprob in zip(completion.token_ids, completion.logprobs, strict=True):
                on_token(token, logprob)
        return completion

    async def publish(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on; start the actor if it does not run."""
        require_supported_form(self, weights)
        sent: WeightObjects | Weights = weights
        try:
            with boundary(EngineError, f"putting version {version} into the object store"):
                if isinstance(weights, NamedTensors):
                    sent = await in_manager_thread(lambda: self._store.put(weights), "put weights")
            worker = await self._started()
            seconds = self._recipe.settings.startup_seconds
            await worker.call("publish", sent, version, seconds=seconds)
        except WorkerLostError as error:
            raise EngineError(str(error)) from error
        except TimeoutError as error:
            raise EngineError(self._give_up(f"version {version} did not arrive in time")) from error
        except AgentFlyError as error:
            self._give_up(str(error))
            raise

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Sample no token inside the block; requests wait meanwhile."""
        await self._control("pause")
        try:
            yield
        finally:
            await self._control("resume")

    async def close(self) -> None:
        """End the engine and its actor."""
        worker, self._worker = self._worker, None
        if worker is not None:
            with suppress(EngineError, WorkerLostError, TimeoutError):
                await worker.call("close", seconds=CONTROL_SECONDS)
            worker.end()

    def _running(self) -> ClusterWorker:
        if self._worker is None:
            raise StaleWeightsError("this engine has no weights yet: it starts with a publish")
        if self._worker.lost is not None:
            raise StaleWeightsError(self._worker.lost)
        return self._worker

    async def _started(self) -> ClusterWorker:
        """Return the running actor, or start one and load the model there."""
        if self._worker is not None and self._worker.lost is None:
            return self._worker
        threads = str(max(1, math.floor(self._settings.engine_cpus)))
        try:
            self._worker = self._workers.start(
                EngineActor,
                self._recipe,
                kind="engine",
                purpose=f"engine {self._recipe.settings.name}",
                need=self._need,
                variables={"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": threads},
            )
        except EnvError as error:
            raise EngineError(str(error)) from error
        seconds = self._settings.start_seconds + self._recipe.settings.startup_seconds
        await self._worker.call("open", seconds=seconds)
        return self._worker

    async def _control(self, method: str) -> None:
        try:
            await self._running().call(method, seconds=CONTROL_SECONDS)
        except WorkerLostError as error:
            raise EngineError(str(error)) from error
        except TimeoutError as error:
            raise EngineError(f"{method}: no answer within {CONTROL_SECONDS:g} s") from error

    def _give_up(self, reason: str) -> str:
        """End an actor whose weights may be of no version; the next publish starts another."""
        return self._worker.lose(reason) if self._worker is not None else reason


def make_actor_engines(
    spec: EngineSpec, workers: Workers, settings: ClusterSettings, *, trusted: bool
) -> list[ActorEngine]:
    """Make the replicas that the settings ask for; their actors start with the first publish."""
    own = spec.settings.model_copy(update={"replicas": 1, "concurrency": spec.own_concurrency})
    recipe = EngineRecipe(
        folder=spec.folder.absolute(),
        settings=own,
        context_length=spec.context_length,
        dtype=spec.dtype,
        version=spec.version,
        lora_rank=spec.lora_rank,
        cache_bytes=spec.cache_bytes // spec.settings.count,
        deterministic=spec.deterministic,
        trust_remote_code=trusted,
        tokenizer=spec.tokenizer,
    )
    gpus = settings.engine_gpus
    if gpus is None:
        gpus = 1.0 if any(node.total.gpus for node in workers.nodes.alive) else 0.0
    need, store = Need(cpus=settings.engine_cpus, gpus=gpus), WeightStore()
    in_process = NamedTensors if settings.weights == "objects" else WeightsFolder
    takes = accepted_weights(spec, in_process)
    return [
        ActorEngine(recipe, workers, settings, store, takes=takes, need=need)
        for _ in range(spec.settings.count)
    ]
