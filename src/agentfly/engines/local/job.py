"""One request in the engine: its parameters, its sampled tokens, its end, and its waiter."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from agentfly.engines.local.key_values import KeyValues, TokenIds
from agentfly.engines.local.token_sampling import Draw, Sampled
from agentfly.errors import AgentFlyError, ConfigError
from agentfly.types import Completion, FinishReason, OnToken, Request, SamplingParams, Tokenizer


class Reply:
    """Carries the answer from the engine's thread to a coroutine in any event loop."""

    def __init__(
        self, on_token: OnToken | None = None, on_started: Callable[[], None] | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_token = on_token
        self._on_started = on_started
        self.future: asyncio.Future[object] = self._loop.create_future()

    @property
    def given(self) -> bool:
        """Whether the waiter has its answer: it was neither cancelled nor failed."""
        done = self.future.done() and not self.future.cancelled()
        return done and self.future.exception() is None

    def give(self, answer: object) -> None:
        """Answer the waiter."""
        self._call(lambda: self.future.set_result(answer))

    def fail(self, error: AgentFlyError) -> None:
        """Raise in the waiter."""
        self._call(lambda: self.future.set_exception(error))

    def start(self) -> None:
        """Call `on_started` in the waiter's thread, the first time."""
        on_started, self._on_started = self._on_started, None
        if on_started is not None:
            self._call(on_started)

    def emit(self, sampled: Sampled) -> None:
        """Call `on_token` in the waiter's thread."""
        if self._on_token is not None:
            self._call(lambda: self._emit(sampled))

    def _emit(self, sampled: Sampled) -> None:
        assert self._on_token is not None
        try:
            self._on_token(sampled.token_id, sampled.logprob)
        except Exception as error:  # noqa: BLE001 - the waiter's own code: the waiter gets it
            self.future.set_exception(error)

    def _call(self, act: Callable[[], None]) -> None:
        def unless_done() -> None:
            if not self.future.done():
                act()

        try:
            self._loop.call_soon_threadsafe(unless_done)
        except RuntimeError:
            # The loop is closed: the waiter is gone with it.
            return


class StopWatch:
    """Stop conditions of one completion, checked token by token.

    Stop strings are looked for in the completion's text across token boundaries; the ids stay
    exactly as sampled.
    """

    def __init__(self, params: SamplingParams, tokenizer: Tokenizer | None, limit: int) -> None:
        self._stop_ids = frozenset(params.stop_token_ids)
        self._strings = params.stop
        self._limit = limit
        self._tokenizer = tokenizer
        # Every token has at least one byte, so a stop string that ends with the newest token began
        # within as many tokens as it has bytes; a few more keep the cut away from its beginning.
        self._window = max((len(s.encode()) for s in params.stop), default=0) + 8
        if params.stop and tokenizer is None:
            raise ConfigError(
                f"stop strings {params.stop!r} need a tokenizer to be found: give the engine one, "
                "LocalEngine(model, tokenizer), or use stop_token_ids"
            )

    def after(self, ids: Sequence[int]) -> FinishReason | None:
        """Return why the completion ends with its newest token, or None if it goes on."""
        if ids[-1] in self._stop_ids:
            return FinishReason.STOP
        if self._strings and self._finds_string(ids[-self._window :]):
            return FinishReason.STOP_STRING
        return FinishReason.LENGTH if len(ids) >= self._limit else None

    def _finds_string(self, newest: Sequence[int]) -> bool:
        assert self._tokenizer is not None
        text = self._tokenizer.decode(newest)
        return any(string in text for string in self._strings)


class Job:
    """A request on its way; only the engine's thread touches it once it is submitted."""

    def __init__(
        self,
        prompt_ids: TokenIds,
        params: SamplingParams,
        *,
        request: Request,
        watch: StopWatch,
        limit: int,
        reply: Reply,
    ) -> None:
        self.request = request
        self.reply = reply
        self.limit = limit
        """Maximum length of prompt and completion together."""
        self.sequence: KeyValues | None = None
        """Its keys and values while it runs."""
        self._prompt = prompt_ids
        self._params = params
        self._watch = watch
        self._sampled: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[tuple[int, int]] = []

    @property
    def ids(self) -> TokenIds:
        """Prompt and completion so far."""
        return np.concatenate((self._prompt, np.asarray(self._sampled, np.int64)))

    @property
    def decodes(self) -> bool:
        """Whether all that is left to compute is the token sampled last."""
        return bool(self._sampled) and self.sequence is not None and self.sequence.pending == 1

    def draw(self) -> Draw:
        """Return parameters and random number for the next token."""
        seed = self.request.seed.child(len(self._sampled))
        return Draw(self._params, seed.uniform())

    def accept(self, sampled: Sampled, version: int) -> FinishReason | None:
        """Record a token; return why the completion ends with it, or None."""
        self._sampled.append(sampled.token_id)
        self._logprobs.append(sampled.logprob)
        if self._versions and self._versions[-1][0] == version:
            self._versions[-1] = (version, self._versions[-1][1] + 1)
        else:
            self._versions.append((version, 1))
        self.reply.emit(sampled)
        return self._watch.after(self._sampled)

    def finish(self, reason: FinishReason) -> None:
        """Hand the completion to the waiter."""
        completion = Completion(
            token_ids=tuple(self._sampled),
            logprobs=tuple(self._logprobs),
            versions=tuple(self._versions),
            finish_reason=reason,
        )
        self.reply.give(completion)
