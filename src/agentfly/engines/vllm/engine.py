"""An engine over a vLLM server."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal, get_args

from agentfly.engines.http_engine import (
    Logprobs,
    PartialCompletion,
    engine_errors,
    one_version,
    require_exact,
)
from agentfly.engines.vllm.control import Control, require_scale_out
from agentfly.engines.vllm.generate import PATH, Generation, generate_body, version_runs
from agentfly.engines.vllm.weight_transfer import WeightSync, WeightTransfer, require_whole
from agentfly.engines.weight_forms import require_supported_form
from agentfly.errors import (
    ConfigError,
    DeadlineError,
    EngineError,
    StaleWeightsError,
    boundary,
)
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Call, Endpoint, HttpClient, HttpResponse
from agentfly.runtime.http_retry import ForbiddenError, NotFoundError
from agentfly.runtime.invoke import invoke
from agentfly.runtime.names import look_up
from agentfly.types import (
    AdapterFolder,
    Clock,
    Completion,
    NamedTensors,
    OnToken,
    Request,
    SamplingParams,
    Tokenizer,
    VersionRuns,
    Weights,
    WeightsFolder,
)

StaleCache = Literal["recompute", "keep"]
"""Treatment of the keys and values of requests in flight when the weights change."""

RESUME_SECONDS = 30.0
"""Seconds for the server to resume its requests, or to abort them."""


class VllmEngine:
    """Samples from a vLLM server, and gives it new weights after each update.

    >>> server = await start_vllm("Qwen/Qwen3-8B", log="vllm.log")              # doctest: +SKIP
    >>> engine = VllmEngine(server.endpoint, logprobs="processed",              # doctest: +SKIP
    ...                     transfer=NcclTransfer(address="10.0.0.1"))

    New weights: the server is paused (requests freeze where they are), receives the weights,
    labels them with their version, and goes on. A completion may span versions, and vLLM
    reports the version of each token. With `stale_cache="recompute"` the keys and values of frozen
    requests are recomputed; with "keep" their next tokens attend to keys that older weights made.

    If an update fails half-way, the server's weights are of no known version: it stays paused, its
    requests end with EngineError, and so do new ones, until weights are loaded again.
    """

    reports_start = True
    """Reported when a request is sent: its wait inside the server is not known."""

    def __init__(  # noqa: PLR0913 - keyword-only, each a choice of its own
        self,
        server: str | Endpoint,
        *,
        logprobs: Logprobs | None = None,
        seeded: bool = True,
        transfer: WeightTransfer | None = None,
        stale_cache: StaleCache = "recompute",
        update_seconds: float = 600.0,
        tokenizer: Tokenizer | None = None,
        context_length: float = math.inf,
        version: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            server: Its address without `/v1`, or an endpoint with key, limits and retries.
            logprobs: "processed" for a server made by `start_vllm`, or started by hand with
                `--logprobs-mode processed_logprobs`; "raw" for one without that option.
            seeded: Whether requests carry a seed. vLLM's build for CPUs crashes on a seeded request
                whose prompt is prefilled in parts, so servers on a CPU should get none.
            transfer: How tensors get to the server; folders and LoRA adapters need none.
            stale_cache: See above.
            update_seconds: A weight update that takes longer has failed.
            tokenizer: For agents that make their renderer from it; the engine needs none.
            context_length: The longest sequence that the server takes, if you know: a chain that
                grows longer then ends by that limit, instead of by the server's refusal.
            version: Of the server's weights as they are now.
            clock: Of the deadlines; by default the running event loop's.
        """
        self.tokenizer = tokenizer
        self.context_length = context_length
        self._clock = clock or LoopClock()
        self._server = HttpClient(require_root(Endpoint.of(server)), self._clock)
        self._control = Control(self._server)
        self._logprobs = logprobs
        self._seeded = seeded
        self._transfer = transfer
        self._sync: WeightSync | None = None
        look_up(str(stale_cache), dict.fromkeys(get_args(StaleCache)), "stale_cache")
        self._stale_cache = stale_cache
        self._update_seconds = update_seconds
        self._updating = asyncio.Lock()
        self._pausing = asyncio.Lock()
        self._pauses = 0
        self._adapter: str | None = None
        self._tensors: frozenset[str] = frozenset()
        self._version = version
        self._unlabeled: int | None = version
        self._torn: str | None = None

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Continue the prompt; raise EngineError, or DeadlineError at the deadline."""
        require_exact(params, self._logprobs)
        self._require_whole_weights()
        unlabeled, version = self._unlabeled, self._version
        collected, generation = PartialCompletion(params, on_token), Generation()

        async def read(answer: HttpResponse) -> None:
            if on_token is None:
                collected.add(await generation.whole(answer))
            else:
                await collected.add_all(generation.stream(answer))

        with engine_errors():
            try:
                await self._server.request(
                    self._call(prompt_ids, params, request, stream=on_token is not None),
                    read,
                    deadline=deadline,
                    seed=request.seed.child("retry"),
                    on_started=request.on_started,
                )
            except ForbiddenError as error:
                require_scale_out(self._server.endpoint.url, error)
                raise
            except NotFoundError as error:
                if self._adapter is None:
                    raise
                raise StaleWeightsError(
                    f"the server does not know the adapter {self._adapter!r}, which was published "
                    f"to it. Was it restarted? {error}"
                ) from error
        if generation.labels is not None:
            labels = generation.labels
            return collected.completion(
                lambda count: version_runs(labels, count, unlabeled=unlabeled)
            )
        return collected.completion(partial(self._unreported, version))

    @property
    def takes(self) -> frozenset[type[Weights]]:
        """Forms of weights that `publish` takes."""
        streamed = frozenset({NamedTensors} if self._transfer else ())
        return streamed | {WeightsFolder, AdapterFolder}

    @property
    def samples_exactly(self) -> bool:
        """Whether its log-probabilities are those of the learner's own forward pass: never."""
        return False

    @property
    def shares_tensors(self) -> bool:
        """Whether it samples from the learner's own tensors: never."""
        return False

    async def publish(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on, and record each token under their version."""
        require_supported_form(self, weights)
        tensors = self._tensors
        if isinstance(weights, WeightsFolder):
            tensors = require_whole(weights.path, tensors)
        deadline = self._clock.now() + self._update_seconds
        async with self._updating, self._paused(deadline):
            self._torn = f"the update to version {version} did not come to its end"
            await self._push(weights, deadline)
            await self._control.label_weights(version, deadline=deadline)
            if self._stale_cache == "recompute":
                await self._control.forget_cache(deadline=deadline)
            self._torn = None
            self._version, self._unlabeled, self._tensors = version, None, tensors

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Freeze all requests inside the block, for example to use the GPU otherwise."""
        async with self._paused(self._clock.now() + self._update_seconds):
            yield

    async def close(self) -> None:
        """Free everything but the server itself. Waiters end with EngineError."""
        await self._server.close()

    def _call(
        self, prompt_ids: Sequence[int], params: SamplingParams, request: Request, *, stream: bool
    ) -> Call:
        body = generate_body(prompt_ids, params, request, stream=stream, seeded=self._seeded)
        if self._adapter is not None:
            body["model"] = self._adapter
        # A server of several data-parallel ranks keeps a session at the rank that has its cache.
        return Call(path=PATH, body=body, headers={"X-Session-ID": request.chain_id})

    def _unreported(self, version: int, count: int) -> VersionRuns:
        """Return the version at the start for all tokens, if it is still the same."""
        if self._version != version:
            raise EngineError(
                f"the weights changed from version {version} to {self._version} under this "
                "completion, and the server doesn't say which tokens are whose"
            )
        return one_version(version)(count)

    def _require_whole_weights(self) -> None:
        if self._torn is not None and not self._updating.locked():
            raise EngineError(
                f"the server's weights are of no known version: {self._torn}. Load weights again"
            )

    @asynccontextmanager
    async def _paused(self, deadline: float) -> AsyncIterator[None]:
        """Pause at the first entrance, resume at the last exit."""
        await self._enter_pause(deadline)
        try:
            yield
        except BaseException:
            # The error that led here is more important than a failure to resume.
            with suppress(EngineError, DeadlineError):
                await self._leave_pause()
            raise
        await self._leave_pause()

    async def _enter_pause(self, deadline: float) -> None:
        # Others wait here until the server has paused, or they would change weights before that.
        async with self._pausing:
            if not self._pauses:
                keep = self._stale_cache == "keep"
                try:
                    await self._control.pause(keep_cache=keep, deadline=deadline)
                except BaseException:
                    with suppress(EngineError, DeadlineError):
                        await self._go_on()
                    raise
            self._pauses += 1

    async def _leave_pause(self) -> None:
        async with self._pausing:
            self._pauses -= 1
            if not self._pauses:
                await self._go_on()

    async def _go_on(self) -> None:
        deadline = self._clock.now() + RESUME_SECONDS
        if self._torn is None:
            await self._control.resume(deadline=deadline)
        else:
            # Torn weights must not be sampled from, and no request should wait for them either.
            await self._control.abort_all(deadline=deadline)

    async def _push(self, weights: Weights, deadline: float) -> None:
        if isinstance(weights, AdapterFolder):
            await self._control.load_adapter(weights, deadline=deadline)
            self._adapter = weights.name
        elif isinstance(weights, WeightsFolder):
            await self._control.reload_weights(weights.path, deadline=deadline)
        elif isinstance(weights, NamedTensors) and self._transfer is not None:
            sync = await self._connected(self._transfer, deadline)
            send = partial(self._transfer.send, sync, weights)
            await self._in_thread("sending", send, deadline)

    async def _connected(self, transfer: WeightTransfer, deadline: float) -> WeightSync:
        if self._sync is None:
            sync = WeightSync(
                self._server.endpoint,
                world_size=await self._control.world_size(deadline=deadline),
                seconds=self._update_seconds,
            )
            await self._in_thread("connecting", partial(transfer.connect, sync), deadline)
            self._sync = sync
        return self._sync

    async def _in_thread(self, doing: str, work: Any, deadline: float) -> None:
        name = f"{doing} weights to {self._server.endpoint.url}"
        with boundary(EngineError, name):
            await invoke(work, name=name, clock=self._clock, deadline=deadline)


def require_root(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint; raise ConfigError if its address ends in /v1."""
    if endpoint.url.rstrip("/").endswith("/v1"):
        raise ConfigError(
            f"give vLLM's address without /v1, got {endpoint.url!r}: its routes for training lie "
            "next to that"
        )
    return endpoint
