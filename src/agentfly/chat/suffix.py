r"""The suffix that follows a sampled turn: where the turn ends, and the tokens behind its end.

Where a turn ends is found by comparing what a template writes behind an assistant's text when it is
the last message and when replies follow:

    template  last message               before a reply                   the turn ends with
    ChatML    `<|im_end|>\n`             `<|im_end|>\n<|im_start|>user…`  `<|im_end|>`
    Phi-3     `<|end|>\n<|endoftext|>`   `<|end|>\n<|user|>…`             `<|end|>`
    gpt-oss   `<|return|>`               `<|end|><|start|>user…`          either
    GLM       nothing                    `<|observation|>…`               what opens the reply

The suffix is the part of this closing that the model did not sample, then the replies and the next
generation prompt.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentfly.chat.formats.marks import common_suffix, shared_length
from agentfly.chat.safe_encode import Piece, SafeEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """The closing of a turn before a certain kind of reply."""

    closing: str = ""
    """Text behind the turn, up to and including the special token that closes it."""
    tokens: tuple[str, ...] = ()
    """Special tokens that a model samples to end such a turn."""
    opens_reply: bool = False
    """The closing token is the first of the reply: it stays even if another ended the turn."""
    spelled: str = ""
    """The closing as plain text, where the tokenizer has no special token for it."""
    last: str = ""
    """Text behind the turn when it is the last message."""


def find_turn_end(last: str, head: str, special: re.Pattern[str] | None) -> TurnEnd:
    r"""Compare what follows a turn as the last message with what follows it before a reply.

    >>> find_turn_end("<|e|>\n", "<|e|>\n<|user|>\n", re.compile(r"<\|e\|>|<\|user\|>")).closing
    '<|e|>'
    """
    shared = last[: shared_length(last, head)]
    if special is None:
        return TurnEnd(spelled=shared, last=last)
    tokens = list(special.finditer(last))
    kept = [token for token in tokens if token.end() <= len(shared)]
    if kept:
        end = kept[-1]
        return TurnEnd(closing=head[: end.end()], tokens=(end.group(),), last=last)
    opening = special.match(head, len(head) - len(head.lstrip()))
    if opening is None:
        return TurnEnd(spelled=shared, last=last)
    ends = tokens[-1].group() if tokens else opening.group()
    return TurnEnd(closing=head[: opening.end()], tokens=(ends,), opens_reply=not tokens, last=last)


def without_generation_prompt(
    last: str, renderings: Sequence[str], special: re.Pattern[str] | None
) -> str:
    """Take the next turn's opening off what follows a turn, where a template always writes it.

    `renderings` are conversations of different lengths, all with that opening at their end. In each
    of them one message more is opened than closed, which distinguishes the token that opens
    messages from the one that closes them.
    """
    tokens = list(special.finditer(last)) if special else []
    for closing, opening in pairwise(tokens):
        surplus = {text.count(opening.group()) - text.count(closing.group()) for text in renderings}
        if surplus == {1}:
            return last[: opening.start()]
    return last


def length_of_call_close(
    last: str, between: str, closing: str, special: re.Pattern[str] | None
) -> int:
    r"""Return how much of the text behind a call's arguments still belongs to the call.

    `last` is that text in a turn that is the last message, `between` what lies between two calls,
    `closing` what closes a turn without calls. In `"}}\n</tool_call><|im_end|>\n` the turn's end is
    the part that also closes a turn without calls; failing that, the last special token, unless it
    closes every call (as `<tool_call|>` does in Gemma).
    """
    shared = common_suffix(last, closing)
    if shared.strip():
        return len(last) - len(shared)
    trailing = list(special.finditer(last)) if special else []
    if not trailing or last[trailing[-1].end() :].strip() or trailing[-1].group() in between:
        return len(last)
    return trailing[-1].start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """Text that follows a sampled turn."""

    end: TurnEnd
    pieces: tuple[Piece, ...]
    """Text behind `end.closing`."""


class SuffixEncoder:
    """Encodes suffixes, each on its own.

    Args:
        encoder: Prevents text from becoming special tokens.
        end_ids: All tokens that end a turn.
        plain_closing: What closes a turn before a user's message, where that is no more than a
            closing. A token that also opens the reply (GLM's `<|observation|>`, Gemma's
            `<|tool_response>`) is more: it stays, also if another token ended the turn.
    """

    def __init__(
        self, encoder: SafeEncoder, *, end_ids: frozenset[int], plain_closing: str | None
    ) -> None:
        self._encoder = encoder
        self._end_ids = end_ids
        self._plain_closing = plain_closing
        self._closings: dict[str, tuple[tuple[int, ...], str | None]] = {}
        self._special = frozenset(encoder.special_ids.values())

    def encode(self, suffix: Suffix, sampled: Sequence[int]) -> tuple[int, ...]:
        """Return what is to follow the sampled tokens of a turn."""
        if suffix.end.spelled and not suffix.end.closing:
            return self._after_spelled(suffix, sampled)
        closing, anchor = self._closing(suffix.end.closing)
        left = self._closing_left(suffix.end, closing, tuple(sampled))
        return (*left, *self._encoder.encode(suffix.pieces, after=anchor))

    def _closing_left(
        self, end: TurnEnd, closing: tuple[int, ...], sampled: tuple[int, ...]
    ) -> Sequence[int]:
        r"""Return what of the closing was not sampled.

        Only special tokens tell that a closing has begun: a line end in front of one may be part
        of the words before it, and the same token as they are (`.\\n`).
        """
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

    def _closing(self, closing: str) -> tuple[tuple[int, ...], str | None]:
        """Return a closing's ids, and the special token behind which the rest is encoded."""
        if closing not in self._closings:
            pattern = self._encoder.pattern
            found = pattern.findall(closing) if pattern else []
            ids = self._encoder.encode([Piece(closing, trusted=True)])
            self._closings[closing] = tuple(ids), found[-1] if found else self._encoder.anchor
        return self._closings[closing]
