"""Readers of documents: text, Markdown, HTML, JSON lines, Parquet, data sets of a hub.

A row of JSON lines, Parquet or a hub has `text`, and optionally `id` and `title`; or `contents`, as
in the corpora of Search-R1 (arXiv:2503.09516), whose first line is the title in quotes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentfly.environments.search.corpus.chunking import Document
from agentfly.environments.search.corpus.wikipedia import read_dump
from agentfly.environments.search.html_text import decode_html, extract_text
from agentfly.environments.search.input_files import (
    document_suffix,
    open_bytes,
    open_text,
    read_json_lines,
)
from agentfly.errors import ConfigError, FormatError, boundary
from agentfly.runtime.extra import import_extra
from agentfly.runtime.names import look_up
from agentfly.tasks.task_loading import HUB, HubDataset

_CODE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<block>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`{1,2})(?!`)(?P<span>.+?)(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_KEPT = re.compile("\ue000(\\d+)\ue001")
"""Placeholder of a piece of code: private-use characters that no text has."""
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_LINE_MARKS = re.compile(r"^ {0,3}(?:#{1,6}|>|[-*+]|\d+\.)[ \t]+", re.MULTILINE)
_EMPHASIS = re.compile(
    r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*]*[^*\s])\1(?![\w*])"
    # `__init__` is a name, not a bold word.
    r"|(?<!\w)(?!__\w+__)(_{1,3})(?=[^\s_])([^_]*[^_\s])\3(?!\w)"
)
NESTED = 3
"""Levels of nested emphasis that are removed."""


def plain_markdown(source: str) -> str:
    """Remove the markup of Markdown; code stays as it is written.

    >>> plain_markdown("## A [link](x.md) and *more*")
    'A link and more'
    >>> plain_markdown("**Call** `f(*a)`, or read_file(a_b) for 2*3*4")
    'Call f(*a), or read_file(a_b) for 2*3*4'
    """
    codes: list[str] = []

    def keep(found: re.Match[str]) -> str:
        codes.append(found["block"] if found["fence"] else found["span"])
        return f"\ue000{len(codes) - 1}\ue001"

    text = _CODE.sub(keep, source.replace("\ue000", ""))
    text = _LINE_MARKS.sub("", _LINK.sub(r"\1", text))
    for _ in range(NESTED):
        text = _EMPHASIS.sub(r"\2\4", text)
    return _KEPT.sub(lambda kept: codes[int(kept[1])], text).strip()


_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def read_text(path: Path) -> Iterator[Document]:
    """Yield a plain text, with the file's name as its id."""
    with open_text(path) as file:
        yield Document(id=path.name, title=path.stem, text=file.read(), where=str(path))


def read_markdown(path: Path) -> Iterator[Document]:
    """Yield a Markdown file without markup; the first heading is the title."""
    with open_text(path) as file:
        source = file.read()
    heading = _HEADING.search(source)
    title = plain_markdown(heading[1]) if heading else path.stem
    yield Document(id=path.name, title=title, text=plain_markdown(source), where=str(path))


def read_html(path: Path) -> Iterator[Document]:
    """Yield the readable text of an HTML page."""
    with open_bytes(path) as file:
        page = extract_text(decode_html(file.read()))
    yield Document(id=path.name, title=page.title or path.stem, text=page.text, where=str(path))


_FORM = 'a row looks like {"id": "7", "title": "Cats", "text": "Cats purr."}'


def parse_row(row: Mapping[str, Any], *, where: str, fallback_id: str) -> Document:
    r"""Return the document of one row.

    >>> row = {"id": 7, "contents": '"Cats"\nCats purr.'}
    >>> parse_row(row, where="wiki.jsonl:1", fallback_id="wiki:1").title
    'Cats'
    """
    title, text = row.get("title"), row.get("text")
    if text is None and isinstance(row.get("contents"), str):
        title, text = split_contents(row["contents"])
    if not isinstance(text, str) or not isinstance(title, str | None):
        raise FormatError(f"{where}: {_FORM}, got the keys {', '.join(map(str, row)) or 'none'}")
    own_id = row.get("id")
    return Document(
        id=fallback_id if own_id is None else str(own_id), title=title or "", text=text, where=where
    )


def split_contents(contents: str) -> tuple[str, str]:
    r"""Split `contents` into the title in quotes and the text.

    >>> split_contents('"Cats"\nCats purr.'), split_contents("Cats purr.")
    (('Cats', 'Cats purr.'), ('', 'Cats purr.'))
    """
    first, line_break, rest = contents.partition("\n")
    is_title = bool(line_break) and len(first) > 1 and first[0] == first[-1] == '"'
    return (first[1:-1], rest) if is_title else ("", contents)


def read_jsonl(path: Path) -> Iterator[Document]:
    """Yield one document per line."""
    for where, row in read_json_lines(path):
        line = where.rpartition(":")[2]
        yield parse_row(row, where=where, fallback_id=f"{path.name}:{line}")


def read_parquet(path: Path) -> Iterator[Document]:
    """Yield one document per row, read in batches."""
    parquet = import_extra("pyarrow.parquet", extra="parquet", purpose=f"reading {path}")
    number = 0
    with boundary(FormatError, f"reading {path} as Parquet"), parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1024):
            for row in batch.to_pylist():
                number += 1
                place = f"{path}, row {number}"
                yield parse_row(row, where=place, fallback_id=f"{path.name}:{number}")


def read_hub(name: str) -> Iterator[Document]:
    """Yield the documents of a hub's data set, named as `hub:organization/name:split`."""
    dataset = HubDataset.parse(name)
    for number, row in enumerate(dataset(), start=1):
        place = f"{name}, row {number}"
        yield parse_row(row, where=place, fallback_id=f"{dataset.dataset}:{number}")


READERS: Mapping[str, Callable[[Path], Iterator[Document]]] = MappingProxyType(
    {
        ".htm": read_html,
        ".html": read_html,
        ".jsonl": read_jsonl,
        ".markdown": read_markdown,
        ".md": read_markdown,
        ".parquet": read_parquet,
        ".txt": read_text,
        ".xml": read_dump,
    }
)
"""Reader of each file suffix; .gz and .bz2 may follow, except for Parquet."""


def read_documents(sources: Iterable[str | Path]) -> Iterator[Document]:
    """Yield the documents of files, folders and data sets of a hub, in that order.

    Args:
        sources: Files; folders, of which every file of a known kind is read; and names such as
            `hub:organization/name:split`.
    """
    for source in sources:
        if str(source).startswith(HUB):
            yield from read_hub(str(source))
        elif Path(source).is_dir():
            yield from _read_folder(Path(source))
        elif not Path(source).exists():
            raise ConfigError(f"there is no file or folder {str(source)!r}")
        else:
            yield from look_up(document_suffix(Path(source)), READERS, "kind of document")(
                Path(source)
            )


def _read_folder(folder: Path) -> Iterator[Document]:
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and document_suffix(p) in READERS)
    if not paths:
        raise ConfigError(f"{folder} holds no documents. Known kinds: {', '.join(READERS)}")
    for path in paths:
        for document in READERS[document_suffix(path)](path):
            yield _with_path_id(document, path, folder)


def _with_path_id(document: Document, path: Path, folder: Path) -> Document:
    """Replace a file name as id by its path: files in different folders can share a name."""
    if document.id != path.name:
        return document
    own = path.relative_to(folder).as_posix()
    return Document(id=own, title=document.title, text=document.text, where=document.where)
