"""What a person would read of an HTML page: no scripts, menus or forms."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser


def _names(tags: str) -> frozenset[str]:
    return frozenset(tags.split())


SILENT = _names(
    "aside button dialog footer form iframe nav noscript object script select style svg template"
)
"""What stands inside these is not part of the text."""
BLOCKS = _names(
    "address article blockquote br dd div dl dt figcaption figure h1 h2 h3 h4 h5 h6 "
    "header hr li main ol p pre section table tbody td th tr ul"
)
"""A new line begins and ends with these."""
MAIN = ("main", "article")
MAIN_SHARE = 0.4
"""What stands in <main> or <article> is the page, if it is at least this share of all text."""

_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([\w-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Readable:
    """A page's title and text."""

    title: str
    text: str


def readable(html: str) -> Readable:
    r"""Take title and text out of a page, however broken it is.

    >>> readable("<title>Cats</title><nav>Home</nav><p>Cats <b>purr</b>.<p>They sleep.")
    Readable(title='Cats', text='Cats purr.\nThey sleep.')
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    everything, main = _tidy(reader.everything), _tidy(reader.main)
    text = main if len(main) >= MAIN_SHARE * len(everything) else everything
    return Readable(_tidy(reader.title).replace("\n", " "), text)


def decode_html(body: bytes, charset: str | None = None) -> str:
    """Decode a page as its header or itself says, or as UTF-8.

    >>> decode_html("<meta charset='latin-1'>é".encode("latin-1"))[-1]
    'é'
    """
    named = _META_CHARSET.search(body[:2048])
    for name in filter(None, (charset, named and named[1].decode("ascii"), "utf-8")):
        try:
            return body.decode(name, errors="replace")
        except LookupError:
            continue  # a name that Python doesn't know
    raise AssertionError("utf-8 is known")


@dataclass
class _Reader(HTMLParser):
    title: list[str] = field(default_factory=list)
    everything: list[str] = field(default_factory=list)
    main: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    """Open tags that matter here: what is silent, what is the main part, the title."""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in BLOCKS:
            self._write("\n")
        if tag in SILENT or tag in MAIN or tag == "title":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS:
            self._write("\n")
        if tag in self._open:
            # Whatever was left open inside it ends with it.
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._write(data)

    def unknown_decl(self, data: str) -> None:
        """Pass over what is no HTML, such as `<![CDATA[`."""

    def _write(self, text: str) -> None:
        if self._open and self._open[-1] == "title":
            self.title.append(text)
        elif not SILENT.intersection(self._open):
            self.everything.append(text)
            if any(tag in MAIN for tag in self._open):
                self.main.append(text)


def _tidy(pieces: list[str]) -> str:
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
