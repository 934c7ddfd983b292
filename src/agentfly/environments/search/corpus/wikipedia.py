"""A MediaWiki dump, such as `enwiki-latest-pages-articles.xml.bz2`, read as a stream."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from agentfly.environments.search.corpus.chunking import Document
from agentfly.environments.search.input_files import open_bytes
from agentfly.errors import FormatError

ARTICLES = "0"
"""Namespace of articles; talk, user and template pages have others."""
DEPTH = 20
"""Maximum nesting of templates and tables that are removed."""

_NOISE = re.compile(
    r"<!--.*?-->|<ref[^>/]*/>|<(ref|math|gallery|nowiki|timeline)\b[^>]*>.*?</\1>", re.DOTALL
)
_INNERMOST = re.compile(r"\{\{[^{}]*\}\}|\{\|(?:[^{|]|\|(?!\}))*\|\}")
_PICTURE = re.compile(
    r"\[\[(?:File|Image|Category):[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]", re.I
)
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_OUTSIDE_LINK = re.compile(r"\[https?://\S+(?: ([^\[\]]*))?\]")
_MARKS = re.compile(r"'{2,}|<[^<>]{1,200}>|^[*#:;]+\s*|^=+\s*|\s*=+$|__[A-Z]+__", re.MULTILINE)
_BLANK = re.compile(r"\n\s*\n+")


def read_dump(path: Path) -> Iterator[Document]:
    """Yield the articles of a dump, without redirects."""
    with open_bytes(path) as file:
        try:
            root: ElementTree.Element | None = None
            for event, element in ElementTree.iterparse(file, events=("start", "end")):
                root = element if root is None else root
                if event == "end" and _name(element) == "page":
                    yield from _article(element, path)
                    root.clear()  # otherwise all pages read so far would stay in memory
        except ElementTree.ParseError as error:
            raise FormatError(f"{path}:{error.position[0]} is not a dump's XML: {error}") from error


def plain_wikitext(source: str) -> str:
    """Remove templates, tables, references and markup from wikitext.

    >>> plain_wikitext("'''Cats'''{{cite|a={{b}}}} like [[Sleep|sleeping]].<ref>x</ref>")
    'Cats like sleeping.'
    """
    text = _NOISE.sub("", source)
    for _ in range(DEPTH):
        text, found = _INNERMOST.subn("", text)
        if not found:
            break
    text = _LINK.sub(r"\1", _PICTURE.sub("", text))
    text = _MARKS.sub("", _OUTSIDE_LINK.sub(r"\1", text))
    return _BLANK.sub("\n", text).strip()


def _article(page: ElementTree.Element, path: Path) -> Iterator[Document]:
    parts = {_name(part): part.text or "" for part in page.iter()}
    is_redirect = any(_name(part) == "redirect" for part in page)
    if parts.get("ns") != ARTICLES or is_redirect:
        return
    title, text = parts.get("title", ""), plain_wikitext(parts.get("text", ""))
    yield Document(id=title, title=title, text=text, where=f"{path}, page {title!r}")


def _name(element: ElementTree.Element) -> str:
    """Return a tag without its namespace, which changes from version to version."""
    return element.tag.rpartition("}")[2]
