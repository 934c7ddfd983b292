"""A vLLM server that is kept running: started when it is needed, and again after it died.

first request or publish   the server is started (or joined), then given the current weights
it dies                    requests in flight end with EngineError, with the cause of its death
next request               it is started again and given the current weights; requests wait
it was started elsewhere   found by the label of its weights; it is given the current ones
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol
from weakref import WeakKeyDictionary

from agentfly.engines.vllm.engine import VllmEngine
from agentfly.engines.weight_forms import require_supported_form
from agentfly.errors import ConfigError, DeadlineError, EngineError, StaleWeightsError
from agentfly.runtime.clock import LoopClock, in_seconds
from agentfly.runtime.http_client import Endpoint
from agentfly.types import (
    Clock,
    Completion,
    OnToken,
    Request,
    SamplingParams,
    Tokenizer,
    Weights,
)

REST_SECONDS = 30.0
"""Seconds after a failed start in which requests fail at once, instead of each trying again."""
POLL_SECONDS = 0.05
"""Seconds between two checks of a request for the end of a pause."""

_log = logging.getLogger(__name__)


class RunningServer(Protocol):
    """A server that answers, started here or elsewhere."""

    @property
    def endpoint(self) -> Endpoint:
        """Address of the server."""

    @property
    def seeded(self) -> bool:
        """Whether it can be sent seeds."""

    async def why_dead(self) -> str | None:
        """Return why it can't answer any more; None while it can, as far as is known."""

    async def close(self) -> None:
        """End it, if it was started here."""


class VllmService:
    """A trainable engine over one vLLM server, which it starts and restarts.

    Args:
        open_server: Starts a server and returns when it is healthy, or joins one.
        connect: Makes the engine that sends requests to it.
        takes: Forms of weights that its way of publishing allows.
        tokenizer: For agents that make their renderer from it.
        context_length: Longest sequence that the server takes.
        clock: Of the deadlines; by default the running event loop's.
    """

    reports_start = True
    samples_exactly = False
    shares_tensors = False

    def __init__(
        self,
        open_server: Callable[[], Awaitable[RunningServer]],
        connect: Callable[[RunningServer], VllmEngine],
        *,
        takes: frozenset[type[Weights]],
        tokenizer: Tokenizer | None = None,
        context_length: float = math.inf,
        clock: Clock | None = None,
    ) -> None:
        self.takes = takes
        self.tokenizer = tokenizer
        self.context_length = context_length
        self._open_server = open_server
        self._connect = connect
        self._clock = clock or LoopClock()
        self._server: RunningServer | None = None
        self._engine: VllmEngine | None = None
        self._current: tuple[Weights, int] | None = None
        self._outdated = False
        self._dead: str | None = None
        self._failed: tuple[str, float] | None = None
        self._closed = False
        self._pauses = 0
        self._bringing_up: asyncio.Task[VllmEngine] | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

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
        engine = await self._ready(deadline)
        try:
            return await engine.sample(
                prompt_ids, params, request=request, deadline=deadline, on_token=on_token
            )
        except StaleWeightsError:
            self._outdated = self._outdated or engine is self._engine
            raise
        except EngineError as error:
            if (why := await self._why_dead(engine)) is not None:
                raise EngineError(f"{error}. The server died: {why}") from error
            raise

    async def publish(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on; a server that died is started again first."""
        require_supported_form(self, weights)
        async with self._lock():
            await self._wait_for_start()
            before = self._current, self._outdated
            self._current, self._outdated = (weights, version), True
            try:
                await self._brought_up()
            except ConfigError:  # refused before anything was sent
                self._current, self._outdated = before
                raise

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Sample no token inside the block; requests wait meanwhile."""
        self._pauses += 1
        try:
            async with AsyncExitStack() as stack:
                if (engine := self._engine) is not None:
                    async with self._ignored_if_dead(engine):
                        await stack.enter_async_context(engine.paused())
                resume = stack.pop_all()
            try:
                yield
            finally:
                async with self._ignored_if_dead(engine):
                    await resume.aclose()
        finally:
            self._pauses -= 1

    @asynccontextmanager
    async def _ignored_if_dead(self, engine: VllmEngine | None) -> AsyncIterator[None]:
        """Pass over a failure of a server that died: it samples nothing."""
        try:
            yield
        except EngineError:
            if engine is None or await self._why_dead(engine) is None:
                raise

    async def close(self) -> None:
        """End the server, if it was started here. Waiters end with EngineError."""
        self._closed = True
        if self._bringing_up is not None and not self._bringing_up.done():
            self._bringing_up.cancel()
            await asyncio.wait({self._bringing_up})
        await self._close_server()

    async def _ready(self, deadline: float) -> VllmEngine:
        """Return the engine of a server that is up, has the current weights and is not paused."""
        begun = self._clock.now()
        try:
            async with self._clock.timeout_at(deadline):
                while True:
                    async with self._lock():
                        engine = await self._brought_up()
                    # A server that was started during a pause samples as soon as it is asked.
                    if not self._pauses:
                        return engine
                    await self._clock.sleep(POLL_SECONDS)
        except TimeoutError as error:
            if isinstance(error, DeadlineError):
                raise
            waited = in_seconds(max(0.0, deadline - begun))
            raise DeadlineError(f"the vLLM server was not ready within {waited}") from error

    async def _brought_up(self) -> VllmEngine:
        """Wait until the server is up to date, which goes on if the waiter gives up.

        Starting may take longer than any request has: each of them would end what the one before
        it began.
        """
        if self._engine is not None and self._dead is None and not self._outdated:
            return self._engine
        await self._wait_for_start()
        self._bringing_up = asyncio.get_running_loop().create_task(self._up_to_date())
        await self._wait_for_start()
        if self._bringing_up.cancelled():
            raise EngineError("the engine is closed")
        return self._bringing_up.result()

    async def _wait_for_start(self) -> None:
        if self._bringing_up is not None and not self._bringing_up.done():
            await asyncio.wait({self._bringing_up})

    async def _up_to_date(self) -> VllmEngine:
        """Start the server unless it runs, and publish the current weights unless it has them."""
        engine = await self._running()
        try:
            return await self._with_current_weights(engine)
        except EngineError:
            if await self._why_dead(engine) is None:
                raise
        return await self._with_current_weights(await self._running())

    async def _with_current_weights(self, engine: VllmEngine) -> VllmEngine:
        if self._outdated and self._current is not None:
            weights, version = self._current
            await engine.publish(weights, version)
        self._outdated = False
        return engine

    async def _running(self) -> VllmEngine:
        if self._closed:
            raise EngineError("the engine is closed")
        if self._engine is not None and self._dead is None:
            return self._engine
        self._require_rested()
        if self._dead is not None:
            _log.warning("%s. It is started again", self._dead)
        await self._close_server()
        try:
            self._server = await self._open_server()
        except (EngineError, DeadlineError) as error:
            self._failed = (str(error), self._clock.now() + REST_SECONDS)
            raise
        self._engine = self._connect(self._server)
        self._dead, self._failed, self._outdated = None, None, True
        return self._engine

    def _require_rested(self) -> None:
        if self._failed is not None and self._clock.now() < self._failed[1]:
            raise EngineError(f"the vLLM server could not be started: {self._failed[0]}")

    async def _why_dead(self, engine: VllmEngine) -> str | None:
        """Return why the server died, or None if it did not, and remember it."""
        if engine is not self._engine or self._server is None:
            return "the server has been started again since" if not self._closed else None
        why = await self._server.why_dead()
        if engine is self._engine and why is not None:
            self._dead = why
        return why

    async def _close_server(self) -> None:
        engine, server = self._engine, self._server
        self._engine = self._server = None
        if engine is not None:
            await engine.close()
        if server is not None:
            await server.close()

    def _lock(self) -> asyncio.Lock:
        """Return the running event loop's lock: an agent may be used from several, in turn."""
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
