"""What a person would read of an HTML page: no scripts, menus or forms."""

import codecs
import html
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
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


def _names(tags: str) -> frozenset[str]:
    return frozenset(tags.split())


SKIPPED_TAGS = _names(
    "aside button dialog footer form iframe nav noscript object script select style svg template"
)
"""What stands inside these is not part of the text."""
BLOCK_TAGS = _names(
    "address article blockquote br dd div dl dt figcaption figure h1 h2 h3 h4 h5 h6 "
    "header hr li main ol p pre section table tbody td th tr ul"
)
"""A new line begins and ends with these."""
MAIN_TAGS = ("main", "article")
MAIN_SHARE = 0.4
"""What stands in <main> or <article> is the page, if it is at least this share of all text."""

REFUSED_CHARSETS = _names("idna punycode raw-unicode-escape undefined unicode-escape")
"""Python knows them, and no page is written in them: some raise, one takes for ever."""

_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([\w-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageText:
    """A page's title and text."""

    title: str
    text: str


def extract_text(html: str) -> PageText:
    r"""Take title and text out of a page, however broken it is.

    >>> extract_text("<title>Cats</title><nav>Home</nav><p>Cats <b>purr</b>.<p>They sleep.")
    PageText(title='Cats', text='Cats purr.\nThey sleep.')
    """
    reader = _Reader()
    for token in tokenize_html(html):
        reader.read(token)
    everything, main = _tidy(reader.everything), _tidy(reader.main)
    text = main if len(main) >= MAIN_SHARE * len(everything) else everything
    return PageText(_tidy(reader.title).replace("\n", " "), text)


def decode_html(body: bytes, charset: str | None = None) -> str:
    """Decode a page as its header or itself says, or as UTF-8.

    >>> decode_html("<meta charset='latin-1'>é".encode("latin-1"))[-1]
    'é'
    """
    named = _META_CHARSET.search(body[:2048])
    for name in filter(None, (charset, named and named[1].decode("ascii"))):
        with suppress(LookupError, ValueError):  # a name that Python doesn't know, or no charset
            if codecs.lookup(name).name not in REFUSED_CHARSETS:
                return body.decode(name, errors="replace")
    return body.decode(errors="replace")


@dataclass(slots=True)
class _Reader:
    title: list[str] = field(default_factory=list)
    everything: list[str] = field(default_factory=list)
    main: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    """Open tags that matter here: what is silent, what is the main part, the title."""
    _times: Counter[str] = field(default_factory=Counter)
    """How often each of them is open, so that nobody has to go through them all."""
    _silent: int = 0
    _in_main: int = 0

    def read(self, token: Token) -> None:
        if token.kind == "text":
            self._write(token.value)
            return
        if token.value in BLOCK_TAGS:
            self._write("\n")
        if token.kind == "close":
            self._close(token.value)
        elif token.value in SKIPPED_TAGS or token.value in MAIN_TAGS or token.value == "title":
            self._open.append(token.value)
            self._count(token.value, 1)

    def _close(self, tag: str) -> None:
        while self._times[tag]:
            # Whatever was left open inside it ends with it.
            inner = self._open.pop()
            self._count(inner, -1)
            if inner == tag:
                return

    def _count(self, tag: str, change: int) -> None:
        self._times[tag] += change
        self._silent += change * (tag in SKIPPED_TAGS)
        self._in_main += change * (tag in MAIN_TAGS)

    def _write(self, text: str) -> None:
        if self._silent:
            return
        if self._open and self._open[-1] == "title":
            self.title.append(unescape_html(text))
            return
        self.everything.append(unescape_html(text))
        if self._in_main:
            self.main.append(self.everything[-1])


def _tidy(pieces: list[str]) -> str:
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
