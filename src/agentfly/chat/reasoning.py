"""Separating a model's reasoning from its answer, in text and in tokens."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

_SPACE = re.compile(r"\s*+")


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """Opening and closing mark of reasoning."""

    opening: str
    closing: str


MARKS = (
    ReasoningMarks("<think>", "</think>"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    ReasoningMarks("<|channel>thought\n", "<channel|>"),
    ReasoningMarks("<seed:think>", "</seed:think>"),
    ReasoningMarks("<mm:think>", "</mm:think>"),
    ReasoningMarks("<|START_THINKING|>", "<|END_THINKING|>"),
)
"""Marks that models may write with any template: of most, of Mistral, Gemma, Seed, MiniMax and
Cohere. Others are learned from the template (see `turn_probe`)."""


class OpensReasoning(Enum):
    """When a template's generation prompt opens the reasoning for the model."""

    NEVER = "never"
    SOMETIMES = "sometimes"
    """Only after some replies: without a closing mark, text is content."""
    ALWAYS = "always"
    """Without a closing mark, all text is reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """The reasoning at the head of a completion."""

    text: str | None
    end: int
    """End in the completion's text, marks included; 0 if there is none."""
    closed: bool = True
    """Whether it had a closing mark."""


def split_reasoning(
    text: str,
    *,
    opened: OpensReasoning = OpensReasoning.NEVER,
    marks: Sequence[ReasoningMarks] = MARKS,
) -> Thought:
    """Find the reasoning with which a completion begins; unclosed, it runs to the end.

    >>> split_reasoning("<think>2+2</think>4")
    Thought(text='2+2', end=18, closed=True)
    """
    thoughts: list[str] = []
    end, closed = 0, True
    found = _opening(text, 0, marks)
    if not found:
        # Templates that can switch reasoning off write its closing mark alone.
        end = _closing_at_head(text, marks)
        if not end and opened is not OpensReasoning.NEVER:
            end, closed = _take_opened(text, opened, thoughts, marks)
        found = _opening(text, end, marks) if end and closed else None
    while found:
        start, mark = found
        close = text.find(mark.closing, start)
        closed = close >= 0
        thoughts.append(text[start : close if closed else len(text)])
        end = close + len(mark.closing) if closed else len(text)
        found = _opening(text, end, marks) if closed else None
    said = "\n".join(thought.strip() for thought in thoughts)
    return Thought(text=said if thoughts else None, end=end, closed=closed)


def mark_at_head(marks: Sequence[ReasoningMarks]) -> re.Pattern[str]:
    """Return a pattern that matches texts which begin with a mark, after white space or not.

    In all others `split_reasoning` finds none, unless the prompt opens it. A mark may itself begin
    with white space, so it is also tried before any is skipped.
    """
    texts = "|".join(re.escape(text) for mark in marks for text in (mark.opening, mark.closing))
    return re.compile(rf"(?:{texts})|\s*+(?:{texts})")


def _take_opened(
    text: str, opened: OpensReasoning, thoughts: list[str], marks: Sequence[ReasoningMarks]
) -> tuple[int, bool]:
    """Take reasoning that the prompt opened; return where it ends, and whether it was closed."""
    closes = [(text.find(mark.closing), mark.closing) for mark in marks if mark.closing in text]
    if closes:
        position, close = min(closes)
        thoughts.append(text[:position])
        return position + len(close), True
    if opened is OpensReasoning.ALWAYS:
        thoughts.append(text)
        return len(text), False
    return 0, True


def _closing_at_head(text: str, marks: Sequence[ReasoningMarks]) -> int:
    space = _SPACE.match(text)
    start = space.end() if space else 0
    for mark in marks:
        if text.startswith(mark.closing, start):
            return start + len(mark.closing)
    return 0


def _opening(
    text: str, start: int, marks: Sequence[ReasoningMarks]
) -> tuple[int, ReasoningMarks] | None:
    """Return where reasoning that opens here begins, if any does, after white space."""
    space = _SPACE.match(text, start)
    for place in dict.fromkeys((start, space.end() if space else start)):
        for mark in marks:
            if mark.opening and text.startswith(mark.opening, place):
                return place + len(mark.opening), mark
    return None


def opens_reasoning(generation_prompt: str, marks: Sequence[ReasoningMarks] = MARKS) -> bool:
    """Return whether a prompt ends within reasoning."""
    return any(
        generation_prompt.rfind(mark.opening.rstrip()) > generation_prompt.rfind(mark.closing)
        for mark in marks
        if mark.opening.strip()
    )


# --- Characters and tokens -------------------------------------------------------------------

_BLOCK = 64
"""Tokens that are decoded at once to find where each begins."""
_CONTEXT = 8
"""Tokens before a block that are decoded with it: a character, or a space that the first word of a
text has not, may lie across the edge."""


def token_spans(
    decode: Callable[[Sequence[int]], str], ids: Sequence[int], ranges: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return the tokens that cover each range of characters of the decoded text.

    A token that lies across an edge belongs to the range. The ids are decoded in blocks, so that
    many ranges in a long text cost no more than the text is long.
    """
    if not ranges:
        return ()
    offsets = _Offsets(decode, ids)
    spans = ((offsets.last_before(start), offsets.first_from(end)) for start, end in ranges)
    return tuple(span for span in spans if span[0] < span[1])


class _Offsets:
    """Character offsets of tokens, computed only as far as needed."""

    def __init__(self, decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> None:
        self._decode = decode
        self._ids = ids
        self._starts = range(0, len(ids), _BLOCK)
        self._lengths = self._lengths_at_starts()
        # Blocks are useless if the whole decodes to another text than its blocks.
        self._exact = self._length(len(ids)) == len(decode(ids))

    def last_before(self, character: int) -> int:
        """Return the last token that begins at or before a character."""
        tokens = self._block(bisect_right(self._lengths, character))
        count = bisect_right(tokens, character, key=self._length_of)
        return max(tokens.start + count - 1, 0)

    def first_from(self, character: int) -> int:
        """Return how many tokens it takes to reach a character."""
        tokens = self._block(bisect_left(self._lengths, character))
        count = bisect_left(tokens, character, key=self._length_of)
        return min(tokens.start + count, len(self._ids))

    def _block(self, number: int) -> range:
        """Return how many tokens may come before a character, given how many blocks begin by it."""
        if not self._exact:
            return range(len(self._ids) + 1)
        start = max(number - 1, 0) * _BLOCK
        return range(start, min(start + _BLOCK, len(self._ids)) + 1)

    def _length_of(self, count: int) -> int:
        return self._length(count) if self._exact else len(self._decode(self._ids[:count]))

    def _lengths_at_starts(self) -> list[int]:
        """Return the length of the text before each block."""
        lengths, total = list[int](), 0
        for start in self._starts:
            lengths.append(total)
            total += self._added(start, min(start + _BLOCK, len(self._ids)))
        return lengths

    def _length(self, count: int) -> int:
        """Return the length of the text of the first `count` tokens."""
        if count == 0:
            return 0
        block = (count - 1) // _BLOCK
        return self._lengths[block] + self._added(self._starts[block], count)

    def _added(self, start: int, end: int) -> int:
        """Return how much longer the tokens from `start` to `end` make the text."""
        context = max(0, start - _CONTEXT)
        before = len(self._decode(self._ids[context:start])) if start else 0
        return len(self._decode(self._ids[context:end])) - before
