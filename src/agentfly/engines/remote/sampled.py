"""From what a server returned to a `Completion`, believed only so far as it fits together."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from agentfly.engines.remote.retry import UnavailableError
from agentfly.errors import EngineError
from agentfly.types import Completion, FinishReason, OnToken, SamplingParams, VersionRuns

NO_LOGPROB = -9999.0
"""What servers write for a token whose log-probability they don't have."""
ROUNDING = 1e-3
"""How far above 0 a log-probability may be by rounding; logits are further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some tokens of a completion: all of them, or one event of a stream."""

    token_ids: Sequence[int]
    logprobs: Sequence[float | None]
    finish_reason: str | None = None
    """`stop`, `length`, or a reason of the server's own; None in the middle of a stream."""
    stop_reason: int | str | None = None
    """The token or string that ended it, where the server tells."""

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


class Gathered:
    """A completion in the making."""

    def __init__(self, params: SamplingParams, on_token: OnToken | None) -> None:
        self._params = params
        self._on_token = on_token
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._last: Piece | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, piece: Piece) -> None:
        """Take some tokens, and pass them on to whoever listens."""
        logprobs = [float(p) for p in piece.logprobs if p is not None]
        self._ids += piece.token_ids
        self._logprobs += logprobs
        if piece.finish_reason is not None:
            self._last = piece
        if self._on_token is not None:
            for token_id, logprob in zip(piece.token_ids, logprobs, strict=True):
                self._on_token(token_id, logprob)

    async def add_all(self, pieces: AsyncGenerator[Piece, None]) -> None:
        """Take a stream; once a token was passed on, a break can't be mended by asking again."""
        if self._ids:
            raise EngineError(f"the stream broke after {len(self)} tokens")
        try:
            async with aclosing(pieces) as closing:
                async for piece in closing:
                    self.add(piece)
        except UnavailableError as error:
            if not self._ids:
                raise
            raise EngineError(f"the stream broke after {len(self)} tokens: {error}") from error

    def completion(self, versions: Callable[[int], VersionRuns]) -> Completion:
        """Return it whole; `versions` tells the weights of so many tokens."""
        last = self._require_end()
        return Completion(
            token_ids=tuple(self._ids),
            logprobs=tuple(self._logprobs),
            versions=versions(len(self)),
            finish_reason=self._finish_reason(last),
        )

    def _require_end(self) -> Piece:
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

    def _finish_reason(self, last: Piece) -> FinishReason:
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
    """Say that all tokens were sampled under one version."""
    return lambda count: ((version, count),)
