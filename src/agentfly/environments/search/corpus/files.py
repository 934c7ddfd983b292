"""Documents that are a file each: text, Markdown, HTML."""

import re
from collections.abc import Iterator
from pathlib import Path

from agentfly.environments.search.corpus.document import Document
from agentfly.environments.search.corpus.markdown import plain_markdown
from agentfly.environments.search.html_text import decode_html, extract_text
from agentfly.environments.search.input_files import open_bytes, open_text

_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def read_text(path: Path) -> Iterator[Document]:
    """Read a plain text, known by its file's name."""
    with open_text(path) as file:
        yield Document(id=path.name, title=path.stem, text=file.read(), where=str(path))


def read_markdown(path: Path) -> Iterator[Document]:
    """Read a text with its marks taken out; the first heading is the title."""
    with open_text(path) as file:
        source = file.read()
    heading = _HEADING.search(source)
    title = plain_markdown(heading[1]) if heading else path.stem
    yield Document(id=path.name, title=title, text=plain_markdown(source), where=str(path))


def read_html(path: Path) -> Iterator[Document]:
    """Read what a person would read of a page."""
    with open_bytes(path) as file:
        page = extract_text(decode_html(file.read()))
    yield Document(id=path.name, title=page.title or path.stem, text=page.text, where=str(path))
