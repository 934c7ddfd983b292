"""Telling a model's reasoning from what it says, in text and in tokens."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

MARKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought\n", "<channel|>"),
)
"""What opens and what closes reasoning, by family: most, Mistral, Gemma."""


class Opened(Enum):
    """Whether a template's generation prompt opens the reasoning for the model."""

    NEVER = "never"
    SOMETIMES = "sometimes"
    """Only after some replies: without a closing mark, text is taken for speech."""
    ALWAYS = "always"
    """Without a closing mark, all text is reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """The reasoning at the head of a completion."""

    text: str | None
    end: int
    """Where it ends in the completion's text, marks included; 0 if there is none."""


def split_reasoning(text: str, *, opened: Opened = Opened.NEVER) -> Thought:
    """Find the reasoning with which a completion begins; unclosed, it runs to the end.

    >>> split_reasoning("<think>2+2</think>4")
    Thought(text='2+2', end=18)
    """
    thoughts: list[str] = []
    end = 0
    if opened is not Opened.NEVER and not _opening(text, 0):
        end = _take_opened(text, opened, thoughts)
    while mark := _opening(text, end):
        start = text.index(mark[0], end) + len(mark[0])
        close = text.find(mark[1], start)
        thoughts.append(text[start:] if close < 0 else text[start:close])
        end = len(text) if close < 0 else close + len(mark[1])
    said = "\n".join(thought.strip() for thought in thoughts)
    return Thought(text=said if thoughts else None, end=end)


def _take_opened(text: str, opened: Opened, thoughts: list[str]) -> int:
    """Take reasoning that the prompt opened; return where it ends."""
    closes = [(text.find(close), close) for _, close in MARKS if close in text]
    if closes:
        position, close = min(closes)
        thoughts.append(text[:position])
        return position + len(close)
    if opened is Opened.ALWAYS:
        thoughts.append(text)
        return len(text)
    return 0


def _opening(text: str, start: int) -> tuple[str, str] | None:
    """Return the marks of reasoning that opens here, if any, after white space."""
    rest = start + len(text[start:]) - len(text[start:].lstrip())
    return next((mark for mark in MARKS if text.startswith(mark[0], rest)), None)


def opens_reasoning(generation_prompt: str) -> bool:
    """Tell whether a prompt ends within reasoning."""
    return any(
        generation_prompt.rfind(opening.rstrip()) > generation_prompt.rfind(closing)
        for opening, closing in MARKS
    )


def token_span(
    decode: Callable[[Sequence[int]], str], ids: Sequence[int], start: int, end: int
) -> tuple[int, int]:
    """Return the tokens that cover a range of characters of the decoded text.

    A token that lies across an edge belongs to the range. Only prefixes are decoded, so that the
    tokens stay as they were sampled.
    """

    def length(count: int) -> int:
        return len(decode(ids[:count]))

    counts = range(len(ids) + 1)
    first = bisect_right(counts, start, key=length) - 1
    last = bisect_left(counts, end, key=length)
    return max(first, 0), min(last, len(ids))
