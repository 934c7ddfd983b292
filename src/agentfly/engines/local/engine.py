"""An engine of our own over Hugging Face modules, on CPU or CUDA."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any, cast

import torch

from agentfly.engines.local.arguments import (
    require_dtype,
    require_positive,
    require_stale_cache,
    token_ids,
)
from agentfly.engines.local.core import Core, StaleCache
from agentfly.engines.local.engine_thread import EngineThread
from agentfly.engines.local.job import Job, Reply
from agentfly.engines.local.sampled_weights import Dtype
from agentfly.engines.local.stop import StopWatch
from agentfly.engines.weight_forms import require_taken
from agentfly.errors import DeadlineError, EngineError
from agentfly.runtime.clock import LoopClock, in_seconds
from agentfly.types import (
    Clock,
    Completion,
    NamedTensors,
    OnToken,
    Request,
    SamplingParams,
    SharedTensors,
    Tokenizer,
    Weights,
)

GIB = 2**30


class LocalEngine:
    """Samples from a loaded Hugging Face decoder, many chains at once.

    A thread of its own steps the model; requests join and leave the batch at every token. A chain's
    keys and values are kept from one turn to the next, and a prompt that several chains share goes
    through the model once.

    >>> engine = LocalEngine(model, tokenizer)                          # doctest: +SKIP
    >>> await engine.sample(prompt_ids, SamplingParams(max_tokens=64),  # doctest: +SKIP
    ...                     request=request, deadline=clock.now() + 60)
    Completion(token_ids=(504, 3575, 282, 4649, 314, 7042, 30, 2), ...)

    Weights: with `dtype=None` it samples from the very parameters of `model`, without a copy. A
    learner in the same process changes them in place while the engine is paused, and then publishes
    the new version. With another dtype the engine keeps a copy, refreshed by `publish`.

    >>> async with engine.paused():                                     # doctest: +SKIP
    ...     optimizer.step()
    ...     await engine.publish(SharedTensors(), version=7)

    Old keys: weights may change in the middle of a completion, and each token's record names its
    own version. With `stale_cache="recompute"` all keys and values are forgotten at that moment and
    computed anew, so that every token is sampled exactly as its version's forward pass over
    everything before it says. With "keep" they stay, which costs nothing, and tokens attend to keys
    that older weights made.
    """

    reports_start = True
    """A request waits for a place among `max_running`, and for memory."""

    def __init__(  # noqa: PLR0913 - keyword-only, each a choice of its own
        self,
        model: Any,
        tokenizer: Tokenizer | None = None,
        *,
        dtype: Dtype = None,
        version: int = 0,
        max_running: int = 64,
        cache_bytes: int = 4 * GIB,
        stale_cache: StaleCache = "recompute",
        deterministic: bool = False,
        threads: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare the model; the thread starts with the first request.

        Args:
            model: A loaded `...ForCausalLM`.
            tokenizer: Needed for stop strings only.
            dtype: None for the model's own weights; another dtype for a copy in it; "auto" for
                bfloat16 where the hardware computes in it.
            version: Of the weights as they are now.
            max_running: How many requests go through the model at once; others wait.
            cache_bytes: Memory for keys and values.
            stale_cache: What becomes of keys and values when the weights change; see above.
            deterministic: The same requests give the same tokens, bit for bit, whenever they come
                and whatever else runs beside them (on one machine). About half as fast.
            threads: Parts of the batch that run side by side; by default as many as torch uses.
            clock: Of the deadlines; by default the running event loop's.
        """
        require_stale_cache(stale_cache)
        require_dtype(dtype)
        require_positive(max_running=max_running, cache_bytes=cache_bytes, threads=threads)
        self._core = Core(
            model,
            dtype=dtype,
            version=version,
            max_running=max_running,
            cache_bytes=cache_bytes,
            stale_cache=stale_cache,
            deterministic=deterministic,
            threads=threads or _threads_for(model),
        )
        self._thread = EngineThread(self._core)
        self.tokenizer = tokenizer
        self._clock = clock or LoopClock()
        config = model.config.get_text_config(decoder=True)
        self._context: int = getattr(config, "max_position_embeddings", None) or 2**31
        self._vocabulary = model.get_input_embeddings().num_embeddings

    @property
    def context_length(self) -> int:
        """How many tokens the model can see at once."""
        return self._context

    @property
    def counters(self) -> Mapping[str, int]:
        """What it has done so far, by name, such as `prefilled_tokens`."""
        return asdict(self._core.counters)

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Continue the prompt; raise EngineError, or DeadlineError at the deadline.

        It ends with a token of `params.stop_token_ids`, a stop string, `params.max_tokens` or the
        end of the model's context. `on_token` is called in the event loop's thread.
        """
        job = self._job(prompt_ids, params, request, Reply(on_token, request.on_started))
        seconds = deadline - self._clock.now()
        self._thread.submit(job)
        try:
            async with self._clock.timeout_at(deadline):
                return cast(Completion, await job.reply.future)
        except TimeoutError as error:
            raise DeadlineError(
                f"the completion of chain {request.chain_id!r}, turn {request.turn}, "
                f"{_lateness(seconds)}"
            ) from error
        finally:
            if not job.reply.given:
                self._thread.abandon(job)

    @property
    def takes(self) -> frozenset[type[Weights]]:
        """Forms of weights that `publish` takes."""
        return frozenset({SharedTensors, NamedTensors})

    @property
    def samples_exactly(self) -> bool:
        """Whether it samples from the very parameters of the model that it was made from."""
        return self._core.shares_weights

    @property
    def shares_tensors(self) -> bool:
        """Whether it samples from the learner's own tensors."""
        return self._core.shares_weights

    async def publish(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on, and record each token under their version."""
        require_taken(self, weights)
        reply = Reply()
        self._thread.publish(weights, version, reply)
        await reply.future

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Keep the model untouched by the engine inside the block; requests wait meanwhile."""
        reply = Reply()
        self._thread.pause(reply)
        try:
            await reply.future
            yield
        finally:
            self._thread.resume()

    async def close(self) -> None:
        """Free everything. Waiters end with EngineError."""
        reply = Reply()
        self._thread.close(reply)
        with suppress(EngineError):  # it had ended already
            await reply.future
        self._thread.join()

    def _job(
        self, prompt_ids: Sequence[int], params: SamplingParams, request: Request, reply: Reply
    ) -> Job:
        ids = token_ids(prompt_ids, self._vocabulary)
        room = min(params.max_tokens, self.context_length - len(ids))
        limit = len(ids) + room
        self._check_size(limit, room)
        watch = StopWatch(params, self.tokenizer, room)
        return Job(ids, params, request=request, watch=watch, limit=limit, reply=reply)

    def _check_size(self, limit: int, room: int) -> None:
        if room < 1:
            raise EngineError(
                f"the prompt has {limit - room} tokens and the model's context holds "
                f"{self.context_length}: nothing can follow. Limit the chain's context length"
            )
        if limit > self._core.cache.max_tokens:
            raise EngineError(
                f"prompt and completion may take {limit} tokens, and the cache holds "
                f"{self._core.cache.max_tokens}. Raise cache_bytes, or lower max_tokens"
            )


def _lateness(seconds: float) -> str:
    if seconds <= 0:
        return "was asked for after its deadline had passed"
    return f"took longer than its {in_seconds(seconds)}"


def _threads_for(model: Any) -> int:
    """As many as torch would use; a GPU has enough to do with one batch at a time."""
    return torch.get_num_threads() if model.device.type == "cpu" else 1
