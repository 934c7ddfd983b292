"""Finding the marks, tags or special tokens, that a format puts around its calls."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from agentfly.chat.formats.reading import CUT_OFF, Found, unreadable
from agentfly.types import ToolCall

MIN_PARTIAL = 3
"""A text that ends with this much of an opening tag was cut in the middle of it."""


def ends(*, close: str | None, others: Sequence[str] = ()) -> re.Pattern[str]:
    r"""Match what ends a call: its closing mark (in the group `close`), or what begins after it.

    A closing mark that is itself cut by the end of the text counts as one.

    >>> ends(close="</f>", others=["<f>"]).search("a</")
    <re.Match object; span=(1, 3), match='</'>
    """
    alternatives = [re.escape(mark) for mark in others]
    if close:
        partial = [re.escape(close[:length]) + r"\Z" for length in range(len(close) - 1, 1, -1)]
        alternatives.insert(0, f"(?P<close>{'|'.join([re.escape(close), *partial])})")
    return re.compile("|".join(alternatives) or r"\Z")


def marked(
    text: str, opening: str, read_body: Callable[[str, int], tuple[Sequence[ToolCall], int]]
) -> Iterator[Found]:
    """Read the calls after each opening mark.

    `read_body` gets the text and where the calls start; it returns them and where they end.
    """
    end = 0
    while (start := text.find(opening, end)) >= 0:
        calls, end = read_body(text, start + len(opening))
        yield Found(start, end, calls)
    partial = _partial_length(text, opening)
    if partial and len(text) - partial >= end:
        yield Found(len(text) - partial, len(text), [unreadable(CUT_OFF, text[-partial:])])


def in_section(text: str, section: str, found: Iterable[Found]) -> Iterator[Found]:
    """Pass on what was found; a section that was opened and holds no call was cut off."""
    empty = True
    for region in found:
        empty = False
        yield region
    if empty and section in text:
        start = text.index(section)
        yield Found(start, len(text), [unreadable(CUT_OFF, text[start:])])


def _partial_length(text: str, mark: str) -> int:
    """Return how much of a mark the text ends with, short of all of it."""
    lengths = range(len(mark) - 1, MIN_PARTIAL - 1, -1)
    return next((length for length in lengths if text.endswith(mark[:length])), 0)
