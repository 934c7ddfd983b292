"""Several replicas of an engine behind one.

    chain's first request ──► the least loaded replica that is up
    its later requests    ──► the same one, which holds its cache
    a replica fails       ──► down for a while; request and chain move to another
    its wait is over      ──► one request tries it; an answer, and it is up again
    it lacks the weights  ──► once its wait is over, they are published to it before it is asked

As long as another replica is up, one unavailability is enough to move on: HTTP engines make one
attempt then, and all attempts of their endpoint only where no other replica could answer.

A replica that is down is used before its wait is over when no other is left, so that a request
which no replica can answer does not block others.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import cast

from agentfly.engines.weight_forms import require_supported_form
from agentfly.errors import ConfigError, DeadlineError, EngineError, StaleWeightsError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_retry import failing_over
from agentfly.types import (
    Clock,
    Completion,
    Engine,
    OnToken,
    Request,
    SamplingParams,
    TrainableEngine,
    Weights,
)

FIRST_REST = 1.0
"""Seconds that a replica is left alone after a failure; doubled with each one that follows."""
LONGEST_REST = 60.0
POLL_SECONDS = 0.05
"""Seconds between two checks for a replica that comes back: no event spans event loops."""
REMEMBERED_CHAINS = 100_000
"""Maximum number of chains whose replica is remembered; the least recent are forgotten first."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Replica:
    index: int
    engine: Engine
    under_way: int = 0
    chains: int = 0
    failures: int = 0
    """Number of failures in a row."""
    last_failure: str = ""
    up_at: float = 0.0
    trials: int = 0
    """Number of requests in flight that began after a failure and before the next answer."""
    outdated: str | None = None
    """Reason why it lacks the current weights; it is not sampled from until it has them."""
    returning: bool = False
    """Whether it is being given the current weights."""

    @property
    def trainable(self) -> TrainableEngine:
        """The engine, if it can be trained."""
        if not hasattr(self.engine, "publish"):
            name = type(self.engine).__name__
            raise ConfigError(f"replica {self.index}, a {name}, takes no weights: use VllmEngine")
        return cast(TrainableEngine, self.engine)

    @property
    def load(self) -> tuple[int, int, int]:
        return (self.under_way, self.chains, self.index)

    @property
    def trouble(self) -> str | None:
        if self.outdated is not None:
            return f"lacks the current weights: {self.outdated}"
        if self.failures:
            return f"down (failures in a row: {self.failures}): {self.last_failure}"
        return None

    def is_up(self, now: float) -> bool:
        """Return whether it may be asked: after a failure, by one request at a time."""
        return self.up_at <= now and not (self.failures and self.trials)

    def failed(self, error: EngineError, now: float) -> None:
        """Begin a rest; of all requests that one crash ends, only the first counts."""
        self.last_failure = str(error)
        if now < self.up_at:
            return
        rest = min(LONGEST_REST, FIRST_REST * 2.0 ** min(self.failures, 30))
        self.failures += 1
        self.up_at = now + rest

    def succeeded(self) -> None:
        self.failures = 0
        self.up_at = 0.0


class ReplicatedEngine:
    """One engine made of several, of any kind.

    >>> engine = ReplicatedEngine([VllmEngine(url) for url in urls])            # doctest: +SKIP

    A replica that answers too slowly is not considered down: give HTTP engines an endpoint with
    `request_seconds` well below the chains' own time limit, so that a hanging server fails early
    enough for another to take over.

    >>> engine.troubles                                                         # doctest: +SKIP
    {1: 'down (failures in a row: 3): http://localhost:8002/...: connection refused'}
    """

    def __init__(self, engines: Sequence[Engine], *, clock: Clock | None = None) -> None:
        """Put engines behind one; closing it closes them."""
        if not engines:
            raise ConfigError("a replicated engine needs at least one engine, got none")
        self.tokenizer = getattr(engines[0], "tokenizer", None)
        self._replicas = [_Replica(index, engine) for index, engine in enumerate(engines)]
        self._clock = clock or LoopClock()
        self._assigned: OrderedDict[str, _Replica] = OrderedDict()
        self._current: _Published | None = None
        self._pauses = 0
        self._returns: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def context_length(self) -> float:
        """Longest sequence that every replica takes, as far as they report it."""
        return min(getattr(r.engine, "context_length", math.inf) for r in self._replicas)

    @property
    def reports_start(self) -> bool:
        """Whether every replica reports when it begins with a request."""
        return all(getattr(r.engine, "reports_start", False) for r in self._replicas)

    @property
    def troubles(self) -> Mapping[int, str]:
        """Reasons why replicas are down or lack the current weights, by replica number."""
        return {r.index: r.trouble for r in self._replicas if r.trouble is not None}

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Continue the prompt on the chain's replica, or on another if that fails."""
        await self._bring_back(deadline)
        counter = _TokenCounter(on_token)
        failures: dict[_Replica, EngineError] = {}
        while not self._closed:
            replica = self._choose(request.chain_id, failures)
            if replica is None:
                if await self._wait_for_return(failures, deadline):
                    continue
                break
            try:
                with failing_over() if self._has_other(replica, failures) else nullcontext():
                    return await self._sample_on(
                        replica, prompt_ids, params, request, deadline=deadline, on_token=counter
                    )
            except EngineError as error:
                if counter.tokens:
                    raise
                failures[replica] = error
                _log.warning("replica %d failed: %s", replica.index, error)
        raise self._exhausted(failures)

    @property
    def takes(self) -> frozenset[type[Weights]]:
        """Forms of weights that every replica takes."""
        return frozenset.intersection(*(r.trainable.takes for r in self._replicas))

    @property
    def samples_exactly(self) -> bool:
        """Whether the log-probabilities of all replicas are those of the learner."""
        return all(replica.trainable.samples_exactly for replica in self._replicas)

    @property
    def shares_tensors(self) -> bool:
        """Whether any replica samples from the learner's own tensors."""
        return any(replica.trainable.shares_tensors for replica in self._replicas)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Sample no token on any replica inside the block; one that fails to pause is left out."""
        self._pauses += 1
        try:
            async with AsyncExitStack() as stack:
                for replica in self._replicas:
                    await stack.enter_async_context(self._pausing(replica))
                yield
        finally:
            self._pauses -= 1

    @asynccontextmanager
    async def _pausing(self, replica: _Replica) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(replica.trainable.paused())
            except (EngineError, DeadlineError) as error:
                replica.outdated = f"it could not be paused: {error}"
                _log.warning("replica %d could not be paused: %s", replica.index, error)
            resume = stack.pop_all()
        try:
            yield
        finally:
            try:
                await resume.aclose()
            except (EngineError, DeadlineError) as error:
                # An error of the block is more important than the failure of one replica.
                replica.failed(EngineError(f"after a pause: {error}"), self._clock.now())
                _log.warning("replica %d did not go on after a pause: %s", replica.index, error)

    async def publish(self, weights: Weights, version: int) -> None:
        """Publish to all replicas; one that fails rests until it has the current weights."""
        require_supported_form(self, weights)
        self._current = _Published(weights, version)
        mistakes: list[ConfigError] = []
        async with asyncio.TaskGroup() as group:
            for replica in self._replicas:
                group.create_task(self._publish_to(replica, self._current, mistakes))
        if mistakes:
            raise mistakes[0]
        if all(replica.outdated is not None for replica in self._replicas):
            raise EngineError(f"no replica could take version {version}: {self._reasons()}")

    async def close(self) -> None:
        """Close all replicas. Waiters end with EngineError."""
        self._closed = True
        for task in self._returns:
            task.cancel()
        errors: list[EngineError] = []
        async with asyncio.TaskGroup() as group:
            for replica in self._replicas:
                group.create_task(_close(replica, errors))
        if errors:
            raise errors[0]

    def _choose(self, chain_id: str, tried: dict[_Replica, EngineError]) -> _Replica | None:
        """Return the chain's replica if it is up, else a new one; None if there is none left."""
        left = self._left(tried)
        up = self._up(left)
        assigned = self._assigned.get(chain_id)
        if assigned in up:
            self._assigned.move_to_end(chain_id)
            return assigned
        # With none up, the one that is due first has had the longest time to recover.
        chosen = min(up or left, key=lambda r: (r.up_at if not up else 0.0, r.load), default=None)
        if chosen is not None:
            self._move(chain_id, chosen)
        return chosen

    def _left(self, tried: dict[_Replica, EngineError]) -> list[_Replica]:
        return [r for r in self._replicas if r not in tried and r.outdated is None]

    def _up(self, replicas: Sequence[_Replica]) -> list[_Replica]:
        now = self._clock.now()
        return [replica for replica in replicas if replica.is_up(now)]

    def _has_other(self, replica: _Replica, tried: dict[_Replica, EngineError]) -> bool:
        return any(other is not replica for other in self._up(self._left(tried)))

    def _move(self, chain_id: str, replica: _Replica) -> None:
        self._forget(chain_id)
        self._assigned[chain_id] = replica
        replica.chains += 1
        if len(self._assigned) > REMEMBERED_CHAINS:
            self._forget(next(iter(self._assigned)))

    def _forget(self, chain_id: str) -> None:
        assigned = self._assigned.pop(chain_id, None)
        if assigned is not None:
            assigned.chains -= 1

    async def _sample_on(
        self,
        replica: _Replica,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        request: Request,
        *,
        deadline: float,
        on_token: "_TokenCounter",
    ) -> Completion:
        trial = 1 if replica.failures else 0
        replica.trials += trial
        replica.under_way += 1
        try:
            completion = await replica.engine.sample(
                prompt_ids, params, request=request, deadline=deadline, on_token=on_token.or_none
            )
        except EngineError as error:
            replica.failed(error, self._clock.now())
            if isinstance(error, StaleWeightsError):
                replica.outdated = str(error)
            raise
        finally:
            replica.trials -= trial
            replica.under_way -= 1
        replica.succeeded()
        return completion

    async def _publish_to(
        self, replica: _Replica, current: "_Published", mistakes: list[ConfigError]
    ) -> None:
        try:
            await replica.trainable.publish(current.weights, current.version)
        except ConfigError as error:
            mistakes.append(error)
        except (EngineError, DeadlineError) as error:
            replica.outdated = str(error)
            replica.failed(EngineError(str(error)), self._clock.now())
            _log.error(
                "replica %d did not take version %d: %s", replica.index, current.version, error
            )
        else:
            late = current is not self._current
            replica.outdated = f"it has version {current.version}" if late else None
            replica.succeeded()

    async def _wait_for_return(self, tried: dict[_Replica, EngineError], deadline: float) -> bool:
        """Wait for a replica that is being given the weights; return whether to try again."""
        waited_for = [r for r in self._replicas if r.returning and r not in tried]
        while any(replica.returning for replica in waited_for):
            if self._clock.now() >= deadline:
                raise DeadlineError("no replica had the current weights before the deadline")
            await self._clock.sleep(POLL_SECONDS)
        return any(replica.outdated is None for replica in waited_for)

    async def _bring_back(self, deadline: float) -> None:
        """Publish the current weights to replicas that lack them and have rested.

        The request waits for that only if no other replica can answer it.
        """
        if self._pauses:
            return  # a learner may be changing the very weights
        now = self._clock.now()
        none_left = all(replica.outdated is not None for replica in self._replicas)
        for replica in self._replicas:
            is_due = replica.up_at <= now or none_left
            if replica.outdated is None or replica.returning or not is_due or not self._current:
                continue
            # A task of its own: a request that gives up must not tear the weights of a replica.
            replica.returning = True
            work = self._return(replica, self._current)
            task = asyncio.get_running_loop().create_task(work)
            self._returns.add(task)
            task.add_done_callback(self._end_return)
            if none_left:
                await self._wait_for(task, deadline)

    def _end_return(self, task: asyncio.Task[None]) -> None:
        self._returns.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("bringing a replica back failed", exc_info=error)

    async def _return(self, replica: _Replica, current: "_Published") -> None:
        try:
            await self._publish_to(replica, current, [])
        finally:
            replica.returning = False

    async def _wait_for(self, task: asyncio.Task[None], deadline: float) -> None:
        try:
            async with self._clock.timeout_at(deadline):
                await asyncio.wait({task})
        except TimeoutError as error:
            raise DeadlineError(
                "a replica took the weights for longer than this request had"
            ) from error

    def _exhausted(self, failures: dict[_Replica, EngineError]) -> EngineError:
        if self._closed:
            return EngineError("the engine is closed")
        said = [f"replica {replica.index}: {error}" for replica, error in failures.items()]
        return EngineError(f"no replica could answer: {'; '.join([*said, self._reasons()])}")

    def _reasons(self) -> str:
        return "; ".join(
            f"replica {replica.index} {replica.trouble}"
            for replica in self._replicas
            if replica.outdated is not None
        )


@dataclass(frozen=True, slots=True)
class _Published:
    """The weights that all replicas should sample from."""

    weights: Weights
    version: int


class _TokenCounter:
    """Passes tokens on and counts them: after the first, no other replica may start over."""

    def __init__(self, on_token: OnToken | None) -> None:
        self._on_token = on_token
        self.tokens = 0

    @property
    def or_none(self) -> OnToken | None:
        return None if self._on_token is None else self._pass

    def _pass(self, token_id: int, logprob: float) -> None:
        self.tokens += 1
        if self._on_token is not None:
            self._on_token(token_id, logprob)


async def _close(replica: _Replica, errors: list[EngineError]) -> None:
    try:
        await replica.engine.close()
    except EngineError as error:
        errors.append(error)
