"""An engine of our own over Hugging Face modules, on CPU or CUDA."""

import reprlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any, cast, get_args

import numpy as np
import torch

from agentfly.engines.factory import EngineSpec
from agentfly.engines.local.core import Core, StaleCache
from agentfly.engines.local.engine_thread import EngineThread
from agentfly.engines.local.forward_pass import refuse_unsupported
from agentfly.engines.local.job import Job, Reply, StopWatch
from agentfly.engines.local.key_values import TokenIds
from agentfly.engines.local.sampled_weights import Dtype, SampledWeights
from agentfly.engines.weight_forms import require_supported_form
from agentfly.errors import ConfigError, DeadlineError, EngineError
from agentfly.modeling.shared_view import bfloat16_pays
from agentfly.runtime.clock import LoopClock, in_seconds
from agentfly.runtime.names import look_up, suggestion
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
    the new version. With another dtype, or `copy=True`, the engine keeps a copy, refreshed by
    `publish` between two tokens.

    >>> async with engine.paused():                                     # doctest: +SKIP
    ...     optimizer.step()
    ...     await engine.publish(SharedTensors(), version=7)

    Old keys: weights may change in the middle of a completion, and each token's record names its
    own version. With `stale_cache="recompute"` all keys and values are forgotten at that moment and
    recomputed, so that every token is sampled exactly as its version's forward pass over
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
        copy: bool = False,
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
            copy: Sample from a copy in any case, so that sampling goes on while a learner changes
                the model; `publish` refreshes it.
            version: Of the weights as they are now.
            max_running: How many requests go through the model at once; others wait.
            cache_bytes: Memory for keys and values.
            stale_cache: What becomes of keys and values when the weights change; see above.
            deterministic: The same requests give the same tokens, bit for bit, whenever they come
                and whatever else runs at the same time (on one machine). About half as fast.
            threads: Parts of the batch that run side by side; by default as many as torch uses.
            clock: Of the deadlines; by default the running event loop's.
        """
        require_stale_cache(stale_cache)
        require_dtype(dtype)
        require_positive(max_running=max_running, cache_bytes=cache_bytes, threads=threads)
        refuse_unsupported(model)
        self._core = Core(
            SampledWeights(model, dtype, copy=copy),
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
        """Maximum number of tokens that the model can see at once."""
        return self._context

    @property
    def counters(self) -> Mapping[str, int]:
        """Totals since the engine was made, by name, such as `prefilled_tokens`."""
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
        """Whether it samples from the model's parameters, or from a copy in the same dtype."""
        return self._core.exact_weights

    @property
    def shares_tensors(self) -> bool:
        """Whether it samples from the learner's own tensors."""
        return self._core.shares_weights

    async def publish(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on, and record each token under their version."""
        require_supported_form(self, weights)
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


def make_local(spec: EngineSpec) -> LocalEngine:
    """Make an engine in this process, which replicas share evenly."""
    dtype = spec.precision or _fast_dtype()
    count = spec.settings.count
    return LocalEngine(
        spec.load(dtype),
        spec.tokenizer,
        dtype=getattr(torch, dtype),
        copy=spec.copies_weights,
        version=spec.version,
        max_running=spec.own_concurrency,
        cache_bytes=spec.cache_bytes // count,
        deterministic=spec.deterministic,
        threads=max(1, torch.get_num_threads() // count) if count > 1 else None,
    )


def _fast_dtype() -> str:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return "bfloat16" if bfloat16_pays(device) else "float32"


def require_stale_cache(name: object) -> None:
    """Raise ConfigError for an unknown policy for old keys.

    >>> require_stale_cache("kep")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: unknown stale_cache 'kep'. Did you mean 'keep'? Known: keep, \
recompute.
    """
    look_up(str(name), dict.fromkeys(get_args(StaleCache)), "stale_cache")


def require_positive(**numbers: object) -> None:
    """Raise ConfigError unless each is a whole number of at least 1, or None for a default.

    >>> require_positive(max_running=0)
    Traceback (most recent call last):
    agentfly.errors.ConfigError: max_running must be a whole number of at least 1, got 0
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, got {number!r}")


def require_dtype(dtype: object) -> None:
    """Raise ConfigError for anything but a floating-point dtype, "auto" or None.

    >>> require_dtype("bfloat16")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: dtype must be torch.float32 or the like, "auto" or None, got \
'bfloat16'. Did you mean torch.bfloat16?
    """
    if dtype is None or dtype == "auto":
        return
    if not isinstance(dtype, torch.dtype):
        meant = getattr(torch, str(dtype), None)
        is_dtype = isinstance(meant, torch.dtype)
        hint = f"Did you mean {meant}?" if is_dtype else suggestion(str(dtype), ["auto"])
        raise ConfigError(
            f'dtype must be torch.float32 or the like, "auto" or None, got {dtype!r}. {hint}'
        )
    if not dtype.is_floating_point:
        raise ConfigError(f"weights need a floating-point dtype, got {dtype}: try torch.bfloat16")


def token_ids(prompt_ids: Sequence[int], vocabulary: int) -> TokenIds:
    """Return a prompt's ids, all of them within the model's vocabulary.

    >>> token_ids([3, 1.5], vocabulary=100)
    Traceback (most recent call last):
    agentfly.errors.ConfigError: a prompt must be a flat sequence of whole numbers, got [3, 1.5]
    """
    ids = _flat(prompt_ids)
    if ids.size == 0:
        raise ConfigError("a prompt needs at least one token, got none")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocabulary:
        raise ConfigError(
            f"the prompt has token id {low if low < 0 else high}, expected 0 to "
            f"{vocabulary - 1}: was it made with another model's tokenizer?"
        )
    return ids.astype(np.int64)


def _flat(prompt_ids: Sequence[int]) -> TokenIds:
    try:
        ids = np.asarray(prompt_ids)
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor that numpy can't read
        ids = np.empty((0, 0))
    # An empty list has a dtype too, but says nothing with it.
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ConfigError(
            f"a prompt must be a flat sequence of whole numbers, got {reprlib.repr(prompt_ids)}"
        )
    return ids


def _lateness(seconds: float) -> str:
    if seconds <= 0:
        return "was asked for after its deadline had passed"
    return f"took longer than its {in_seconds(seconds)}"


def _threads_for(model: Any) -> int:
    """Return as many as torch would use, and one for a GPU, which one batch keeps busy."""
    return torch.get_num_threads() if model.device.type == "cpu" else 1
