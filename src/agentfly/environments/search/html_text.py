"""The readable text of an HTML page: no scripts, menus or forms.

Pages are untrusted, so the time grows linearly with their length, however broken they are: a tag, a
comment or a script without an end takes the rest of the page, as in a browser. That is why no
library is used: selectolax is five times faster on usual pages, but quadratic in the nesting depth
(15 s for 256 KB of `<div>`); trafilatura is slower, and drops short pages.
"""

import codecs
import html
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

RAW_TEXT_TAGS = ("script", "style", "title")
"""Elements whose content is raw text up to their own closing tag."""

_START = re.compile(r"<!--|<[!?]|<(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*)|</")
_STOP = re.compile(r""">|=\s*"[^"]*"|=\s*'[^']*'""")
"""End of a tag, or a quoted value, in which `>` does not end the tag."""
_CLOSING = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in RAW_TEXT_TAGS}
_HUGE_NUMBER = re.compile(r"&#\d{8,};?")


@dataclass(frozen=True, slots=True)
class Token:
    """A text, an opening tag or a closing tag."""

    kind: Literal["text", "open", "close"]
    value: str
    """The text as written, or the tag's name in lower case."""


def tokenize_html(page: str) -> Iterator[Token]:
    """Yield the tokens of a page, without comments, declarations and attributes.

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
    """Replace character references such as `&amp;`.

    Python refuses to parse references of thousands of digits; they become U+FFFD.

    >>> unescape_html("Cats &amp; dogs &#33;" + "&#" + "9" * 5000 + ";")
    'Cats & dogs !�'
    """
    return html.unescape(_HUGE_NUMBER.sub("\ufffd", text))


def _end(page: str, start: re.Match[str]) -> int:
    """Return the end of a tag, a comment or a declaration."""
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
"""Elements whose content is not part of the text."""
BLOCK_TAGS = _names(
    "address article blockquote br dd div dl dt figcaption figure h1 h2 h3 h4 h5 h6 "
    "header hr li main ol p pre section table tbody td th tr ul"
)
"""Elements that begin and end with a line break."""
MAIN_TAGS = ("main", "article")
MAIN_SHARE = 0.4
"""Minimum share of the text in <main> and <article> to be used instead of all text."""

REFUSED_CHARSETS = _names("idna punycode raw-unicode-escape undefined unicode-escape")
"""Python codecs that no page uses: some raise, one takes very long."""

_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([\w-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageText:
    """A page's title and text."""

    title: str
    text: str


def extract_text(html: str) -> PageText:
    r"""Return title and text of a page, however broken it is.

    >>> extract_text("<title>Cats</title><nav>Home</nav><p>Cats <b>purr</b>.<p>They sleep.")
    PageText(title='Cats', text='Cats purr.\nThey sleep.')
    """
    reader = _TextBuilder()
    for token in tokenize_html(html):
        reader.read(token)
    everything, main = _collapse_spaces(reader.everything), _collapse_spaces(reader.main)
    text = main if len(main) >= MAIN_SHARE * len(everything) else everything
    return PageText(_collapse_spaces(reader.title).replace("\n", " "), text)


def decode_html(body: bytes, charset: str | None = None) -> str:
    """Decode a page by the charset of its header or its meta tag, or as UTF-8.

    >>> decode_html("<meta charset='latin-1'>é".encode("latin-1"))[-1]
    'é'
    """
    named = _META_CHARSET.search(body[:2048])
    for name in filter(None, (charset, named and named[1].decode("ascii"))):
        with suppress(LookupError, ValueError):  # unknown to Python, or not a text codec
            if codecs.lookup(name).name not in REFUSED_CHARSETS:
                return body.decode(name, errors="replace")
    return body.decode(errors="replace")


@dataclass(slots=True)
class _TextBuilder:
    title: list[str] = field(default_factory=list)
    everything: list[str] = field(default_factory=list)
    main: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    """Open elements that matter here: skipped ones, the main part, the title."""
    _open_counts: Counter[str] = field(default_factory=Counter)
    """Number of open elements of each tag, which saves a search through `_open`."""
    _skipped: int = 0
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
        while self._open_counts[tag]:
            # Elements left open inside it end with it.
            inner = self._open.pop()
            self._count(inner, -1)
            if inner == tag:
                return

    def _count(self, tag: str, change: int) -> None:
        self._open_counts[tag] += change
        self._skipped += change * (tag in SKIPPED_TAGS)
        self._in_main += change * (tag in MAIN_TAGS)

    def _write(self, text: str) -> None:
        if self._skipped:
            return
        if self._open and self._open[-1] == "title":
            self.title.append(unescape_html(text))
            return
        self.everything.append(unescape_html(text))
        if self._in_main:
            self.main.append(self.everything[-1])


def _collapse_spaces(pieces: list[str]) -> str:
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
