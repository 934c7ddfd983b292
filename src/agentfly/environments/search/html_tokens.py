"""The tags and texts of an HTML page, in time that grows with its length and no faster.

Pages come from strangers. Every character is passed once or twice, whatever is left open: a tag,
a comment or a script without an end takes the rest of the page with it, as in a browser.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

RAW_TEXT_TAGS = ("script", "style", "title")
"""What stands inside these is text, whatever it looks like, up to their own closing tag."""

_START = re.compile(r"<!--|<[!?]|<(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*)|</")
_STOP = re.compile(r""">|=\s*"[^"]*"|=\s*'[^']*'""")
"""The end of a tag, or a value in quotes, inside which `>` ends nothing."""
_CLOSING = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in RAW_TEXT_TAGS}
_HUGE_NUMBER = re.compile(r"&#\d{8,};?")


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a page."""

    kind: Literal["text", "open", "close"]
    value: str
    """The text as it is written, or the tag's name in small letters."""


def tokenize_html(page: str) -> Iterator[Token]:
    """Take a page apart; comments, declarations and attributes are left out.

    >>> [token.value for token in tokenize_html("<P class='>'>Cats<!-- no --> purr") if token.value]
    ['p', 'Cats', ' purr']
    """
    place = 0
    while (start := _START.search(page, place)) is not None:
        yield Token("text", page[place : start.start()])
        place = _end(page, start)
        if start["name"] is None:
            continue
        name = start["name"].lower()
        yield Token("close" if start["slash"] else "open", name)
        if page.endswith("/>", start.end(), place):
            yield Token("close", name)
        elif name in RAW_TEXT_TAGS and not start["slash"]:
            closing = _CLOSING[name].search(page, place)
            end = closing.start() if closing else len(page)
            yield Token("text", page[place:end])
            place = end
    yield Token("text", page[place:])


def unescape_html(text: str) -> str:
    """Write `&amp;` and its like as the characters they stand for.

    A number of thousands of digits is no character, and Python refuses to read it.

    >>> unescape_html("Cats &amp; dogs &#33;" + "&#" + "9" * 5000 + ";")
    'Cats & dogs !�'
    """
    return html.unescape(_HUGE_NUMBER.sub("\ufffd", text))


def _end(page: str, start: re.Match[str]) -> int:
    """Return where a tag, a comment or a declaration is over."""
    if start["name"] is not None:
        return _end_of_tag(page, start.end())
    mark = "-->" if start[0] == "<!--" else ">"
    found = page.find(mark, start.start() + 2)
    return len(page) if found < 0 else found + len(mark)


def _end_of_tag(page: str, place: int) -> int:
    for stop in _STOP.finditer(page, place):
        if stop[0] == ">":
            return stop.end()
    return len(page)
