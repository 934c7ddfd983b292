"""Parts that the engines over HTTP share: errors, log-probabilities, and completions.

A `Completion` records log-probabilities of the temperature-scaled, untruncated distribution. No
parameter of a request asks a server for these; which it gives is a matter of how it was started:

| a server's `logprobs` | are taken | so they are right for |
|---|---|---|
| `scaled`: SGLang | after temperature, before top-p, top-k, min-p | everything |
| `processed`: vLLM with `--logprobs-mode processed_logprobs` | after both | any temperature, no truncation |
| `raw`: vLLM by default | before both | temperature 1, any truncation |
| not known | | temperature 1, no truncation |

Greedy completions record those of temperature 1, which is what all of them give.
"""  # noqa: E501 - a table

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Literal

from agentfly.errors import ConfigError, EngineError, HttpError
from agentfly.runtime.http_retry import UnavailableError
from agentfly.types import Completion, FinishReason, OnToken, SamplingParams, VersionRuns

Logprobs = Literal["scaled", "processed", "raw"]
"""Distribution that a server's log-probabilities are of; see above."""

_TAKES_TRUNCATION = ("scaled", "raw")
_TAKES_TEMPERATURE = ("scaled", "processed")

NO_LOGPROB = -9999.0
"""Value that servers write for a token whose log-probability they don't have."""
ROUNDING = 1e-3
"""Maximum of a log-probability above 0 by rounding; logits are further."""


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raise an HttpError of the block as EngineError."""
    try:
        yield
    except HttpError as error:
        raise EngineError(str(error)) from error


def require_exact(params: SamplingParams, logprobs: Logprobs | None) -> None:
    """Raise ConfigError where the server's log-probabilities would be wrong."""
    if params.temperature == 0:
        return
    wrong = []
    if params.temperature != 1 and logprobs not in _TAKES_TEMPERATURE:
        wrong.append(f"temperature={params.temperature:g} (expected 0 or 1)")
    if truncates(params) and logprobs not in _TAKES_TRUNCATION:
        wrong.append(
            f"top_p={params.top_p:g}, top_k={params.top_k}, min_p={params.min_p:g} "
            "(expected 1, 0, 0)"
        )
    if wrong:
        raise ConfigError(
            f"a server whose log-probabilities are {logprobs or 'of an unknown kind'!r} can't give "
            f"right ones for {' and '.join(wrong)}. Change that; or say logprobs='scaled' for "
            "SGLang, 'processed' for vLLM started with --logprobs-mode processed_logprobs, 'raw' "
            "for vLLM otherwise; or, where log-probabilities don't matter, use OpenAIChat"
        )


def truncates(params: SamplingParams) -> bool:
    """Return whether some tokens can't be sampled at all."""
    return params.top_p < 1 or params.top_k > 0 or params.min_p > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionChunk:
    """Some tokens of a completion: all of them, or one event of a stream."""

    token_ids: Sequence[int]
    logprobs: Sequence[float | None]
    finish_reason: str | None = None
    """`stop`, `length`, or a reason of the server's own; None in the middle of a stream."""
    stop_reason: int | str | None = None
    """Token or string that ended it, where the server reports it."""

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.logprobs):
            raise EngineError(
                f"the server returned {len(self.token_ids)} token ids and {len(self.logprobs)} "
                "log-probabilities; expected one for each"
            )
        wrong = [p for p in self.logprobs if p is None or not NO_LOGPROB < p < ROUNDING]
        if wrong:
            raise EngineError(
                f"the server returned {wrong[0]} as the log-probability of a sampled token; "
                "expected a number that is not greater than 0"
            )


class PartialCompletion:
    """A completion whose tokens are still arriving."""

    def __init__(self, params: SamplingParams, on_token: OnToken | None) -> None:
        self._params = params
        self._on_token = on_token
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._last: CompletionChunk | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, chunk: CompletionChunk) -> None:
        """Append tokens, and pass them to `on_token`."""
        logprobs = [float(p) for p in chunk.logprobs if p is not None]
        self._ids += chunk.token_ids
        self._logprobs += logprobs
        if chunk.finish_reason is not None:
            self._last = chunk
        if self._on_token is not None:
            for token_id, logprob in zip(chunk.token_ids, logprobs, strict=True):
                self._on_token(token_id, logprob)

    async def add_all(self, chunks: AsyncGenerator[CompletionChunk, None]) -> None:
        """Append a stream. Once a token was passed on, a broken stream can't be retried."""
        if self._ids:
            raise EngineError(f"the stream broke after {len(self)} tokens")
        try:
            async with aclosing(chunks) as closing:
                async for chunk in closing:
                    self.add(chunk)
        except UnavailableError as error:
            if not self._ids:
                raise
            raise EngineError(f"the stream broke after {len(self)} tokens: {error}") from error

    def completion(self, versions: Callable[[int], VersionRuns]) -> Completion:
        """Return the whole completion; `versions` gives the versions of so many tokens."""
        last = self._require_end()
        return Completion(
            token_ids=tuple(self._ids),
            logprobs=tuple(self._logprobs),
            versions=versions(len(self)),
            finish_reason=self._finish_reason(last),
        )

    def _require_end(self) -> CompletionChunk:
        reason = self._last.finish_reason if self._last else None
        if self._last is None or reason not in ("stop", "length"):
            raise EngineError(
                f"the server ended the completion after {len(self)} tokens with the reason "
                f"{reason!r}; expected 'stop' or 'length'"
            )
        if not 1 <= len(self) <= self._params.max_tokens:
            raise EngineError(
                f"the server returned {len(self)} tokens; expected 1 to {self._params.max_tokens}"
            )
        return self._last

    def _finish_reason(self, last: CompletionChunk) -> FinishReason:
        if last.finish_reason == "length":
            return FinishReason.LENGTH
        if isinstance(last.stop_reason, str):
            return FinishReason.STOP_STRING
        ended_by = self._ids[-1]
        if last.stop_reason is not None and last.stop_reason != ended_by:
            raise EngineError(
                f"the server says that token {last.stop_reason} ended the completion, but returned "
                f"{ended_by} as the last: an end token must be among the ids to be trained on"
            )
        if last.stop_reason is None and ended_by not in self._params.stop_token_ids:
            return FinishReason.STOP_STRING if self._params.stop else FinishReason.STOP
        return FinishReason.STOP


def one_version(version: int) -> Callable[[int], VersionRuns]:
    """Return a function that gives all tokens one version."""
    return lambda count: ((version, count),)
