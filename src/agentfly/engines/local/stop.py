"""When a completion is over."""

from collections.abc import Sequence

from agentfly.errors import ConfigError
from agentfly.types import FinishReason, SamplingParams, Tokenizer


class StopWatch:
    """Reads a completion token by token and says when, and why, it ends.

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
