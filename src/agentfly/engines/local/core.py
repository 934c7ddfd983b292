"""The engine without its thread: jobs in, one step of the model at a time, completions out."""

import math
from typing import Literal

from agentfly.engines.local.forward_pass import make_forward, prove_forward
from agentfly.engines.local.job import Job
from agentfly.engines.local.kv_cache import Cache, Counters
from agentfly.engines.local.sampled_weights import SampledWeights
from agentfly.engines.local.scheduler import Scheduler
from agentfly.engines.local.shards import TILE_ROWS, Shards, Work
from agentfly.engines.local.span_attention import Span
from agentfly.engines.local.token_sampling import Draw, Sampled
from agentfly.errors import EngineError, boundary
from agentfly.types import NamedTensors, Weights

StaleCache = Literal["recompute", "keep"]

CHUNK_TOKENS = 128
"""Tokens of one prompt prefilled in a step, so that a long prompt doesn't stall the decoding."""

PREFILL_TOKENS = 256
"""Tokens of all prompts prefilled in a step."""


class Core:
    """Weights, cache, scheduler and shards. Not thread-safe: the engine's thread owns it."""

    def __init__(
        self,
        weights: SampledWeights,
        *,
        version: int,
        max_running: int,
        cache_bytes: int,
        stale_cache: StaleCache,
        deterministic: bool,
        threads: int,
    ) -> None:
        self.counters = Counters()
        self._weights = weights
        shape = prove_forward(self._weights.view)
        self.cache = Cache(shape, max_bytes=cache_bytes, counters=self.counters)
        self._forward = make_forward(self._weights.view)
        self._version = version
        self._stale_cache = stale_cache
        self.scheduler = Scheduler(
            self.cache,
            max_running=max_running,
            chunk=TILE_ROWS if deterministic else CHUNK_TOKENS,
            prefill_tokens=PREFILL_TOKENS,
            counters=self.counters,
        )
        parameters = sum(p.numel() for p in self._weights.view.parameters())
        self._shards = Shards(threads=threads, parameters=parameters, deterministic=deterministic)
        if deterministic:
            self._shards.prove_deterministic(self._forward, self._weights.view)

    def step(self) -> None:
        """Run one step of all running jobs; do nothing when there are none."""
        planned = self.scheduler.plan()
        if not planned:
            return
        self.counters.steps += 1
        works = [Work(span, _draw(job, span)) for job, span in planned]
        outcomes = self._shards.run(self._forward, works)
        sampled = [(job, s) for (job, _), s in zip(planned, outcomes, strict=True) if s is not None]
        # Jobs that end free their memory before the others request more.
        going_on = [(job, s) for job, s in sampled if not self._ended_by(job, s)]
        for job, outcome in going_on:
            self.scheduler.extend(job, outcome.token_id)

    @property
    def shares_weights(self) -> bool:
        """Whether the module's own parameters are sampled from, and no copy of them."""
        return self._weights.shared

    @property
    def exact_weights(self) -> bool:
        """Whether a copy, if any, has the module's own dtype."""
        return self._weights.exact

    def publish(self, weights: Weights, version: int) -> None:
        """Sample from other weights; running jobs go on under the stated policy for old keys."""
        if not isinstance(weights, NamedTensors):
            self._weights.refresh()
        elif weights.in_place:
            # An error ends the engine: half of an update must not be sampled from.
            self._weights.load_each(weights.stream())
        else:
            with boundary(EngineError, f"reading version {version} of the weights"):
                tensors = dict(weights.stream())
            self._weights.load(tensors)
        self._forward = make_forward(self._weights.view)
        self._version = version
        if self._stale_cache == "recompute":
            self.scheduler.restart()

    def close(self) -> None:
        """Free everything."""
        for job in self.scheduler.jobs:
            self.scheduler.abandon(job)
        self.cache.drop_idle()
        self._shards.close()

    def _ended_by(self, job: Job, sampled: Sampled) -> bool:
        self.counters.decoded_tokens += 1
        if not math.isfinite(sampled.logprob):
            self.scheduler.abandon(job)
            job.reply.fail(
                EngineError(
                    f"the model gave no finite probabilities to chain {job.request.chain_id!r} at "
                    f"weights version {self._version}: the weights have probably diverged"
                )
            )
            return True
        reason = job.accept(sampled, self._version)
        if reason is None:
            return False
        self.scheduler.finish(job)
        job.finish(reason)
        return True


def _draw(job: Job, span: Span) -> Draw | None:
    return job.draw() if span.end == span.sequence.known else None
