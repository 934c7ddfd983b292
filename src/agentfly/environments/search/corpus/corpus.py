"""Passages on disk, opened by many processes without copying."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from agentfly.environments.search.atomic_folder import read_manifest
from agentfly.environments.search.corpus.cut import Chunking, chunk_id, join_chunks, split_document
from agentfly.environments.search.corpus.layout import (
    BOUNDS,
    HASHES,
    KIND,
    ORDER,
    TEXTS,
    hash_id,
)
from agentfly.environments.search.corpus.read import read_documents
from agentfly.environments.search.corpus.write import write_corpus
from agentfly.environments.search.passage import Passage
from agentfly.errors import FormatError
from agentfly.runtime.extra import import_extra

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


class Corpus(Sequence[Passage]):
    """A sequence of passages that are read from disk when they are asked for.

    corpus = Corpus.create("wiki", ["enwiki.xml.bz2"])
    corpus[0].title, corpus.find("Cats#3"), len(corpus)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        facts = read_manifest(self.folder, KIND)
        self.fingerprint: str = facts["sha256"]
        self._count: int = facts["passages"]
        self._overlap: int = facts.get("overlap", 0)
        self._bounds = self._numbers(BOUNDS, "int64", 3 * self._count + 1)
        self._hashes = self._numbers(HASHES, "uint64", self._count)
        self._order = self._numbers(ORDER, "int64", self._count)
        self._texts = self._mapped_texts()

    @classmethod
    def create(
        cls,
        folder: str | Path,
        sources: Sequence[str | Path],
        *,
        chunking: Chunking | None = None,
        on_passage: Callable[[int], None] | None = None,
    ) -> Corpus:
        """Split documents into passages and keep them in a new folder.

        Args:
            folder: Where; it appears when it is whole.
            sources: Files, folders, dumps and names of a hub; see `read_documents`.
            chunking: How long passages are.
            on_passage: Told how many have been written, now and then.
        """
        chunking = chunking or Chunking()
        passages = (
            p for document in read_documents(sources) for p in split_document(document, chunking)
        )
        write_corpus(Path(folder), passages, overlap=chunking.overlap, on_passage=on_passage)
        return cls(folder)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Passage: ...
    @overload
    def __getitem__(self, place: slice) -> list[Passage]: ...
    def __getitem__(self, place: int | slice) -> Passage | list[Passage]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"the corpus has {len(self)} passages, asked for {place}")
        first = 3 * (place % len(self))
        passage_id, title, text = (self._text(first + part) for part in range(3))
        return Passage(id=passage_id, title=title, text=text)

    def __iter__(self) -> Iterator[Passage]:
        return (self[place] for place in range(len(self)))

    def __reduce__(self) -> tuple[type[Corpus], tuple[Path]]:
        return Corpus, (self.folder,)

    def find(self, passage_id: str) -> Passage | None:
        """Return the passage of this id; of a document that was cut, all of its passages as one."""
        whole = self._find(passage_id)
        return whole if whole is not None else self._joined(passage_id)

    def _joined(self, document_id: str) -> Passage | None:
        parts: list[Passage] = []
        while (part := self._find(chunk_id(document_id, len(parts)))) is not None:
            parts.append(part)
        if not parts:
            return None
        text = join_chunks([part.text for part in parts], self._overlap)
        return Passage(id=document_id, title=parts[0].title, text=text)

    def _find(self, passage_id: str) -> Passage | None:
        hashed = self._hashes.dtype.type(hash_id(passage_id))
        place = int(self._hashes.searchsorted(hashed))
        if place == len(self) or self._hashes[place] != hashed:
            return None
        passage = self[int(self._order[place])]
        return passage if passage.id == passage_id else None

    def _text(self, part: int) -> str:
        start, end = self._bounds[part : part + 2]
        return self._texts[start:end].decode()

    def _numbers(self, name: str, kind: str, expected: int) -> NDArray[Any]:
        numpy_ = import_extra("numpy", extra="search", purpose="opening a corpus")
        path = self.folder / name
        if not path.is_file() or path.stat().st_size != 8 * expected:
            raise FormatError(f"{path} is damaged or missing: make the corpus anew")
        numbers: numpy.memmap[Any, Any] = numpy_.memmap(path, dtype=kind, mode="r")
        return numbers

    def _mapped_texts(self) -> mmap.mmap:
        path = self.folder / TEXTS
        if not path.is_file() or path.stat().st_size != self._bounds[-1]:
            raise FormatError(f"{path} is damaged or missing: make the corpus anew")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
