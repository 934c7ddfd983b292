"""The tokens of a suffix: what of a turn's closing the model did not sample, then the rest."""

from collections.abc import Sequence

from agentfly.chat.safe_encode import Piece, SafeEncoder
from agentfly.chat.suffix_probe import Suffix
from agentfly.chat.turn_end import TurnEnd


class SuffixEncoder:
    """Encodes suffixes, each on its own.

    Args:
        encoder: Keeps words from becoming special tokens.
        end_ids: All tokens that end a turn.
        plain_closing: What closes a turn before a user's message, where that is no more than a
            closing. A token that also opens the reply (GLM's `<|observation|>`, Gemma's
            `<|tool_response>`) is more: it stays, whatever else ended the turn.
    """

    def __init__(
        self, encoder: SafeEncoder, *, end_ids: frozenset[int], plain_closing: str | None
    ) -> None:
        self._encoder = encoder
        self._end_ids = end_ids
        self._plain_closing = plain_closing
        self._closings: dict[str, tuple[int, ...]] = {}
        self._special = frozenset(encoder.special_ids.values())

    def encode(self, suffix: Suffix, sampled: Sequence[int]) -> tuple[int, ...]:
        """Return what is to follow the sampled tokens of a turn."""
        if suffix.end.spelled and not suffix.end.closing:
            return self._after_spelled(suffix, sampled)
        closing = self._closing_left(suffix.end, tuple(sampled))
        rest = self._encoder.encode(suffix.pieces, after=self._anchor(suffix.end.closing))
        return (*closing, *rest)

    def _closing_left(self, end: TurnEnd, sampled: tuple[int, ...]) -> Sequence[int]:
        r"""Return what of the closing was not sampled.

        Only special tokens tell that a closing has begun: a line end in front of one may be part
        of the words before it, and the same token as they are (`.\\n`).
        """
        closing = self._closing_ids(end.closing)
        for length in range(min(len(closing), len(sampled)), 0, -1):
            if sampled[-length:] == closing[:length] and self._special & {*closing[:length]}:
                return closing[length:]
        last = sampled[-1] if sampled else None
        if last in self._special and last in closing:
            return closing[len(closing) - closing[::-1].index(last) :]
        ended = last in self._end_ids
        return () if ended and end.closing == self._plain_closing else closing

    def _after_spelled(self, suffix: Suffix, sampled: Sequence[int]) -> tuple[int, ...]:
        """Continue a turn whose end is plain text to this tokenizer."""
        spelled = suffix.end.spelled
        tail = self._encoder.tokenizer.decode(sampled[-len(spelled.encode()) :])
        written = next(n for n in range(len(spelled), -1, -1) if tail.endswith(spelled[:n]))
        first, *others = suffix.pieces
        left = Piece(first.text[written:], trusted=True)
        return tuple(self._encoder.encode([left, *others], after=self._encoder.anchor))

    def _closing_ids(self, closing: str) -> tuple[int, ...]:
        if closing not in self._closings:
            ids = self._encoder.encode([Piece(closing, trusted=True)])
            self._closings[closing] = tuple(ids)
        return self._closings[closing]

    def _anchor(self, closing: str) -> str | None:
        """Return the special token behind which the rest is encoded."""
        pattern = self._encoder.pattern
        found = pattern.findall(closing) if pattern else []
        return found[-1] if found else self._encoder.anchor
