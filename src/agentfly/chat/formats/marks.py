"""Finding the marks, tags or special tokens, that a format puts around its calls."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from string import whitespace

from agentfly.chat.formats.call_format import CUT_OFF, Found, unreadable
from agentfly.types import ToolCall

_SPELLED_TAG = r"<\|(?:open|close)\|>[^<>]*+<\|sep\|>"
"""A tag whose brackets are special tokens, as Kimi K3 writes them."""
_TOKEN = re.compile(rf"{_SPELLED_TAG}|<[^<>\s]*+>|\[/?[A-Z_ ]{{3,}}+\]|\s++|\w++|.", re.S)
_MARK = re.compile(rf"{_SPELLED_TAG}|<[^<>\s]++>|\[/?[A-Z_ ]{{3,}}+\]")
_LIST_OPENING = f"{whitespace}["
_QUOTES = "`'\""
_SAME_LINE = 200
"""Maximum characters that are searched backwards for the beginning of a line."""
_PROSE = re.compile(r"[ \t]*+[.,;:)]|[ \t]++[A-Za-z]")

MIN_PARTIAL = 3
"""A text that ends with this much of an opening tag was cut in the middle of it."""


def end_pattern(*, close: str | None, others: Sequence[str] = ()) -> re.Pattern[str]:
    r"""Match what ends a call: its closing mark (in the group `close`), or what begins after it.

    A closing mark that is itself cut by the end of the text counts as one.

    >>> end_pattern(close="</f>", others=["<f>"]).search("a</")
    <re.Match object; span=(1, 3), match='</'>
    """
    alternatives = [re.escape(mark) for mark in others]
    if close:
        partial = [re.escape(close[:length]) + r"\Z" for length in range(len(close) - 1, 1, -1)]
        alternatives.insert(0, f"(?P<close>{'|'.join([re.escape(close), *partial])})")
    return re.compile("|".join(alternatives) or r"\Z")


def find_marked(
    text: str,
    opening: str,
    closing: str,
    read_body: Callable[[str, int], tuple[Sequence[ToolCall], int]],
) -> Iterator[Found]:
    """Read the calls after each opening mark; a mark that is only mentioned stays in the text.

    `read_body` gets the text and where the calls start; it returns them and where they end.
    """
    end = 0
    while (start := text.find(opening, end)) >= 0:
        body = start + len(opening)
        calls, end = read_body(text, body)
        closed = bool(closing) and text.endswith(closing, body, end)
        if not closed and all(call.problem for call in calls) and is_mention(text, start, body):
            end = body
        else:
            yield Found(start, end, calls)
    partial = partial_length(text, opening) if end < len(text) else 0
    if partial and len(text) - partial >= end:
        yield Found(len(text) - partial, len(text), [unreadable(CUT_OFF, text[-partial:])])


def is_mention(text: str, start: int, body: int) -> bool:
    """Return whether a mark is mentioned rather than used, as in `Write <tool_call> first`.

    It is in quotes, or in the middle of a line with prose behind it. Only called for marks behind
    which no call can be read, and which nothing closes.
    """
    if start and text[start - 1] in _QUOTES and text.startswith(text[start - 1], body):
        return True
    before = text[max(0, start - _SAME_LINE) : start].rpartition("\n")[2]
    return bool(before.strip() and _PROSE.match(text, body))


def in_section(text: str, section: str, found: Iterable[Found]) -> Iterator[Found]:
    """Pass on what was found, the first with its section's mark before it.

    A section that was opened and has no call was cut off.
    """
    empty = True
    for region in found:
        yield _from_section(text, section, region) if empty else region
        empty = False
    start = text.find(section) if empty else -1
    if start >= 0 and not is_mention(text, start, start + len(section)):
        yield Found(start, len(text), [unreadable(CUT_OFF, text[start:])])


def _from_section(text: str, section: str, first: Found) -> Found:
    before = text[: first.start].rstrip(_LIST_OPENING)
    return replace(first, start=len(before) - len(section)) if before.endswith(section) else first


def partial_length(text: str, mark: str) -> int:
    """Return how much of a mark the text ends with, short of all of it."""
    if not text or text[-1] not in mark:
        return 0
    lengths = range(len(mark) - 1, MIN_PARTIAL - 1, -1)
    return next((length for length in lengths if text.endswith(mark[:length])), 0)


# --- What the texts of a template have in common ---------------------------------------------


def common_prefix(one: str, other: str) -> str:
    """Return the marks and words that two texts have in common at their beginning."""
    return one[: _alike(_TOKEN.findall(one), _TOKEN.findall(other))]


def common_suffix(one: str, other: str) -> str:
    """Return the marks and words that two texts have in common at their end."""
    length = _alike(_TOKEN.findall(one)[::-1], _TOKEN.findall(other)[::-1])
    return one[len(one) - length :]


def _alike(tokens: Sequence[str], others: Sequence[str]) -> int:
    length = 0
    for token, other in zip(tokens, others, strict=False):
        if token != other:
            break
        length += len(token)
    return length


def first_token(text: str) -> str:
    """Return the mark, the word or the space with which a text begins."""
    match = _TOKEN.match(text)
    return match[0] if match else ""


def first_mark(text: str) -> str:
    """Return a text's first mark; empty if it has none."""
    match = _MARK.search(text)
    return match[0] if match else ""


def last_mark(text: str) -> str:
    """Return a text's last mark; empty if it has none."""
    found: list[str] = _MARK.findall(text)
    return found[-1] if found else ""


def shared_length(one: str, other: str) -> int:
    """Return how long the part is with which both texts begin.

    >>> shared_length("<|end|>", "<|eot|>")
    3
    """
    pairs = zip(one, other, strict=False)
    shortest = min(len(one), len(other))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), shortest)


def text_around(text: str, marks: Sequence[str]) -> tuple[str, ...] | None:
    """Return the text around marks; None unless each occurs exactly once, in order.

    >>> text_around("<a>X<b>Y", ["X", "Y"])
    ('<a>', '<b>', '')
    """
    fixed: list[str] = []
    for mark in marks:
        if text.count(mark) != 1:
            return None
        before, _, text = text.partition(mark)
        fixed.append(before)
    return (*fixed, text)
