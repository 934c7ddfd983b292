"""An engine that answers from a script, for tests, examples and scheduling benchmarks.

It fulfills the whole contract of an engine: ids in and out, an end token only where one was
"sampled", stop strings that cut after whole tokens, a limit on new tokens, versions, deadlines.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentfly.errors import DeadlineError, EngineError, boundary
from agentfly.runtime.clock import LoopClock
from agentfly.types import (
    Clock,
    Completion,
    FinishReason,
    OnToken,
    Request,
    SamplingParams,
    Seed,
    Tokenizer,
    Weights,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTurn:
    """Arguments of a script for one answer."""

    prompt_ids: Sequence[int]
    request: Request
    params: SamplingParams
    tokenizer: Tokenizer

    @property
    def prompt(self) -> str:
        """The prompt as text."""
        return self.tokenizer.decode(self.prompt_ids)


Script = Sequence[str] | Callable[[ScriptedTurn], str | Sequence[int]]
"""The answer to each turn, or a function that gives text, or ids to be taken as they are."""

Latency = Callable[[Seed], float]
"""Draws the seconds that one generation takes."""


def log_normal(*, mean: float, sigma: float) -> Latency:
    """Return a latency with log-normal seconds of this mean, for any sigma of their logarithm."""
    mu = math.log(mean) - sigma**2 / 2
    return lambda seed: seed.random().lognormvariate(mu, sigma)


class ScriptedEngine:
    """Answers turn `i` of every chain with `script[i]`, or with what `script` returns.

    >>> from agentfly.chat import CHATML_TOKENS, ByteTokenizer
    >>> engine = ScriptedEngine(["Let me see.", "It is 4."], tokenizer=ByteTokenizer(CHATML_TOKENS))
    """

    def __init__(
        self,
        script: Script,
        *,
        tokenizer: Tokenizer,
        latency: Latency | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self._script = script
        self._latency = latency
        self._clock = clock or LoopClock()
        self._version = 0
        self._closed = False

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Answer from the script after the simulated latency."""
        if self._closed:
            raise EngineError("the engine is closed")
        turn = ScriptedTurn(
            prompt_ids=prompt_ids, request=request, params=params, tokenizer=self.tokenizer
        )
        ids, finish_reason = _cut(self._answer(turn, params), params, self.tokenizer)
        await self._simulate_latency(request, deadline)
        logprobs = _plausible_logprobs(len(ids), request.seed)
        for token_id, logprob in zip(ids, logprobs, strict=True) if on_token else ():
            on_token(token_id, logprob)  # type: ignore[misc]
        return Completion(
            token_ids=tuple(ids),
            logprobs=logprobs,
            versions=((self._version, len(ids)),) if ids else (),
            finish_reason=finish_reason,
        )

    async def publish(self, weights: Weights, version: int) -> None:
        """Remember the version; a script has no weights."""
        del weights
        self._version = version

    async def close(self) -> None:
        """Make later requests raise EngineError."""
        self._closed = True

    def _answer(self, turn: ScriptedTurn, params: SamplingParams) -> list[int]:
        """Return the scripted ids; text gets an end token, as a model would sample one."""
        index = turn.request.turn
        if callable(self._script):
            with boundary(EngineError, f"the script for turn {index}"):
                answer = self._script(turn)
        elif index < len(self._script):
            answer = self._script[index]
        else:
            raise EngineError(f"the script has {len(self._script)} turns; turn {index} was asked")
        if isinstance(answer, str):
            return [*self.tokenizer.encode(answer), *params.stop_token_ids[:1]]
        return list(answer)

    async def _simulate_latency(self, request: Request, deadline: float) -> None:
        seconds = self._latency(request.seed.child("latency")) if self._latency else 0.0
        left = deadline - self._clock.now()
        if seconds:
            await self._clock.sleep(min(seconds, left))
        if seconds > left:
            raise DeadlineError(f"generation of turn {request.turn} did not end in time")


def _cut(
    ids: list[int], params: SamplingParams, tokenizer: Tokenizer
) -> tuple[list[int], FinishReason]:
    """End where a real engine would have: end token, stop string or length, whichever is first."""
    ends = [ids.index(stop) + 1 for stop in params.stop_token_ids if stop in ids]
    end = min([*ends, params.max_tokens + 1])
    for count in range(1, min(end, params.max_tokens + 1)) if params.stop else ():
        if _contains_any(tokenizer.decode(ids[:count]), params.stop):
            return ids[:count], FinishReason.STOP_STRING
    if end <= params.max_tokens:
        return ids[:end], FinishReason.STOP
    return ids[: params.max_tokens], FinishReason.LENGTH


def _contains_any(text: str, strings: tuple[str, ...]) -> bool:
    return any(string in text for string in strings)


def _plausible_logprobs(count: int, seed: Seed) -> tuple[float, ...]:
    """Take a stretch of a fixed table, so that simulating a model costs next to nothing."""
    start = int(seed.child("logprobs").uniform() * len(_LOGPROBS))
    stretch = _LOGPROBS[start : start + count]
    while len(stretch) < count:
        stretch += _LOGPROBS[: count - len(stretch)]
    return stretch


_LOGPROBS = tuple(-Seed(0).child(place).uniform() for place in range(4096))
