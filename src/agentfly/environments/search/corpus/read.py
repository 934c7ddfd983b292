"""Documents from wherever they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from agentfly.environments.search.corpus.document import Document
from agentfly.environments.search.corpus.files import read_html, read_markdown, read_text
from agentfly.environments.search.corpus.rows import read_hub, read_jsonl, read_parquet
from agentfly.environments.search.corpus.wikipedia import read_dump
from agentfly.environments.search.input_files import document_suffix
from agentfly.errors import ConfigError
from agentfly.runtime.names import look_up
from agentfly.tasks.hub import HUB

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
"""What each kind of file is read by; .gz and .bz2 may follow, except for Parquet."""


def read_documents(sources: Iterable[str | Path]) -> Iterator[Document]:
    """Yield the documents of files, folders and data sets of a hub, in that order.

    Args:
        sources: Files; folders, of which every file of a known kind is read; and names such as
            `hub:organisation/name:split`.
    """
    for source in sources:
        if str(source).startswith(HUB):
            yield from read_hub(str(source))
        elif Path(source).is_dir():
            yield from _read_folder(Path(source))
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
            yield _known_by_path(document, path, folder)


def _known_by_path(document: Document, path: Path, folder: Path) -> Document:
    """Files in different folders may have the same name."""
    if document.id != path.name:
        return document
    own = path.relative_to(folder).as_posix()
    return Document(id=own, title=document.title, text=document.text, where=document.where)
