"""Encoding text so that only the template can make special tokens.

A tool's output or a user's text may contain the characters `<|im_end|>`. Encoded with the rest it
would become the token that ends a turn, and its author could write messages in another role's name.
Here text comes in pieces, each trusted (the template's own) or not. A special token that touches an
untrusted character is cut in two and encoded as plain characters. Text without such a forgery is
encoded at once, so that it has the same tokens as a plain encoding.

Limits: special tokens of one character are not guarded. Text in which a tokenizer finds a special
token only after normalizing it (for example in another case) is refused.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentfly.chat.tokenizer_adapters import special_pattern
from agentfly.errors import ConfigError
from agentfly.types import Tokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of rendered text."""

    text: str
    trusted: bool
    """Whether special tokens in it are intended."""


class SafeEncoder:
    r"""Encodes pieces.

    >>> from agentfly.chat.tokenizer_adapters import ByteTokenizer
    >>> encoder = SafeEncoder(ByteTokenizer(["<e>"]))
    >>> encoder.encode([Piece("<e>", True), Piece("<e>", False)])
    [256, 60, 101, 62]
    """

    def __init__(self, tokenizer: Tokenizer, special_ids: Mapping[str, int] | None = None) -> None:
        self.tokenizer = tokenizer
        self.special_ids = tokenizer.special_ids if special_ids is None else special_ids
        """The tokens that only trusted text can make."""
        self.pattern = special_pattern([text for text in self.special_ids if len(text) > 1])
        self.anchor = next(iter(self.special_ids), None)
        """A special token behind which text is encoded, as it doesn't begin a document."""

    def encode(self, pieces: Sequence[Piece], *, after: str | None = None) -> list[int]:
        """Encode text that follows the special token `after`; None at the start of a document."""
        text = "".join([piece.text for piece in pieces])
        if all(piece.trusted for piece in pieces):
            return self._encode_after(after, text)
        first, *others = _split(text, self._cuts(text, pieces))
        ids = self._encode_after(after, first)
        for other in others:
            ids += self._encode_after(self.anchor, other)
        self._require_meant(ids, [first, *others])
        return ids

    def _require_meant(self, ids: Sequence[int], parts: Sequence[str]) -> None:
        """Refuse special tokens that no part of the text spells.

        A tokenizer that normalizes text (to another case, say) before it looks for its special
        tokens finds some where no one can cut.
        """
        assert self.pattern is not None, "text is only cut, or from outside, next to special tokens"
        guarded = {self.special_ids[token]: token for token in self.special_ids if len(token) > 1}
        made = Counter(guarded[token] for token in ids if token in guarded)
        surplus = made - Counter(token for part in parts for token in self.pattern.findall(part))
        if surplus:
            raise ConfigError(
                f"the tokenizer makes the special token {next(iter(surplus))!r} out of text that a "
                "user, a tool or a model wrote in another spelling: take that text out"
            )

    def _encode_after(self, anchor: str | None, text: str) -> list[int]:
        """Encode behind a special token, then drop that token.

        On its own, text might gain a leading space (sentencepiece) or keep one that the token in
        front of it would have swallowed (`rstrip`).
        """
        if not text:
            return []
        if anchor is not None:
            ids = self.tokenizer.encode(anchor + text)
            if ids and ids[0] == self.special_ids[anchor]:
                return ids[1:]
        return self.tokenizer.encode(text)

    def _cuts(self, text: str, pieces: Sequence[Piece]) -> list[int]:
        if self.pattern is None or not self.pattern.search(text):
            return []
        ranges = list(_untrusted_ranges(pieces))
        found = (_cut(start, end, ranges) for start, end in self._occurrences(text))
        return sorted({cut for cut in found if cut is not None})

    def _occurrences(self, text: str) -> Iterator[tuple[int, int]]:
        """Find every special token, those that overlap one another too."""
        position = 0
        while self.pattern is not None and (match := self.pattern.search(text, position)):
            yield match.span()
            position = match.start() + 1


def _untrusted_ranges(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    position = 0
    for piece in pieces:
        if not piece.trusted:
            yield position, position + len(piece.text)
        position += len(piece.text)


def _cut(start: int, end: int, ranges: Sequence[tuple[int, int]]) -> int | None:
    """Return where to cut a special token in two; None if the template alone made it.

    The cut is next to an untrusted character, so that no token of the template's own is cut.
    """
    for low, high in ranges:
        if low < end and high > start and low < high:
            return low if low > start else start + 1
    return None


def _split(text: str, cuts: Sequence[int]) -> list[str]:
    edges = [0, *cuts, len(text)]
    return [text[low:high] for low, high in pairwise(edges)]


def splice(fixed: Sequence[str], words: Sequence[str]) -> list[Piece]:
    """Insert texts between the template's own parts, without rendering the template."""
    pieces = [Piece(fixed[0], trusted=True)]
    for word, following in zip(words, fixed[1:], strict=True):
        pieces += (Piece(word, trusted=False), Piece(following, trusted=True))
    return pieces
