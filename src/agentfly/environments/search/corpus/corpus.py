"""A corpus on disk, memory-mapped by many processes.

    manifest.json   number of passages, words of overlap, SHA-256 of all their bytes
    texts.bin       id, title and text of each passage, one after another, UTF-8
    bounds.i64      start of each of these three, and the end of the last: 3 × passages + 1
    hashes.u64      sorted hashes of all ids, for binary search
    order.i64       the passage that each of those hashes belongs to

All but the manifest are memory-mapped, so that processes share one copy.
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, overload

from agentfly.environments.search.atomic_folder import new_folder, read_manifest, write_manifest
from agentfly.environments.search.corpus.chunking import (
    Chunking,
    chunk_id,
    join_chunks,
    split_document,
)
from agentfly.environments.search.corpus.readers import read_documents
from agentfly.environments.search.retriever import Passage
from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.extra import import_extra

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


KIND = "corpus"
TEXTS = "texts.bin"
BOUNDS = "bounds.i64"
HASHES = "hashes.u64"
ORDER = "order.i64"
BUFFERED = 4096
"""Number of passages between two writes of the bounds."""


class Corpus(Sequence[Passage]):
    """A sequence of passages, each read from disk when it is accessed.

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
        """Split documents into passages and write them to a new folder.

        Args:
            folder: A new folder; it appears when it is complete.
            sources: Files, folders, dumps and names of a hub; see `read_documents`.
            chunking: Length and overlap of passages.
            on_passage: Called with the number of passages written, at intervals.
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
        """Return the passage of this id, or all passages of the document of this id as one."""
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
            raise FormatError(f"{path} is damaged or missing: make the corpus again")
        numbers: numpy.memmap[Any, Any] = numpy_.memmap(path, dtype=kind, mode="r")
        return numbers

    def _mapped_texts(self) -> mmap.mmap:
        path = self.folder / TEXTS
        if not path.is_file() or path.stat().st_size != self._bounds[-1]:
            raise FormatError(f"{path} is damaged or missing: make the corpus again")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def hash_id(passage_id: str) -> int:
    """Hash an id to 64 bits.

    >>> hash_id("cats") == hash_id("cats") != hash_id("dogs")
    True
    """
    data = passage_id.encode(errors="replace")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def write_corpus(
    folder: Path,
    passages: Iterable[Passage],
    *,
    overlap: int = 0,
    on_passage: Callable[[int], None] | None = None,
) -> None:
    """Write all passages to a new folder, which appears when it is complete.

    Args:
        folder: A new folder.
        passages: Consumed one at a time; they need not fit in memory.
        overlap: Number of words that a passage repeats of the one before it.
        on_passage: Called with the number of passages written, at intervals.
    """
    with new_folder(folder) as half:
        with (half / TEXTS).open("wb") as texts, (half / BOUNDS).open("wb") as bounds:
            writer = _Writer(texts, bounds)
            for passage in passages:
                writer.write(passage)
                if on_passage is not None and writer.count % BUFFERED == 0:
                    on_passage(writer.count)
            writer.flush()
        if writer.count == 0:
            raise ConfigError(f"nothing to put into {folder}: no document has any text")
        if on_passage is not None:
            on_passage(writer.count)
        _write_ids(half, writer.hashes)
        facts = {"kind": KIND, "version": 1, "passages": writer.count, "overlap": overlap}
        write_manifest(half, facts | {"sha256": writer.digest.hexdigest()})


class _Writer:
    """Appends id, title and text of passages, and their bounds."""

    def __init__(self, texts: IO[bytes], bounds: IO[bytes]) -> None:
        self._texts, self._bounds = texts, bounds
        self._place = 0
        self._new_bounds = array("q", [0])
        self.hashes = array("Q")
        self.digest = hashlib.sha256()

    @property
    def count(self) -> int:
        return len(self.hashes)

    def write(self, passage: Passage) -> None:
        if not passage.id:
            raise FormatError(f"passage {self.count + 1} has an empty id")
        self.hashes.append(hash_id(passage.id))
        for part in (passage.id, passage.title, passage.text):
            # A lone surrogate, which JSON can contain, can't be encoded.
            data = part.encode(errors="replace")
            self._texts.write(data)
            self.digest.update(data + b"\0")
            self._place += len(data)
            self._new_bounds.append(self._place)
        if self.count % BUFFERED == 0:
            self.flush()

    def flush(self) -> None:
        self._new_bounds.tofile(self._bounds)
        self._new_bounds = array("q")


def _write_ids(half: Path, hashes: array[int]) -> None:
    """Write the sorted hashes of the ids, and the passage of each."""
    numpy = import_extra("numpy", extra="search", purpose="writing a corpus")
    unsorted = numpy.frombuffer(hashes, dtype=numpy.uint64)
    order = numpy.argsort(unsorted, kind="stable")
    ordered = unsorted[order]
    same = numpy.flatnonzero(ordered[1:] == ordered[:-1])
    if len(same):
        first, second = (int(order[same[0] + place]) for place in (0, 1))
        raise FormatError(
            f"passages {first + 1} and {second + 1} have the same id, {_id_of(half, first)!r}: ids "
            "must be unique. Leave them out to number the documents"
        )
    ordered.tofile(half / HASHES)
    order.astype(numpy.int64).tofile(half / ORDER)


def _id_of(half: Path, place: int) -> str:
    bounds = array("q")
    with (half / BOUNDS).open("rb") as file:
        file.seek(3 * place * bounds.itemsize)
        bounds.fromfile(file, 2)
    with (half / TEXTS).open("rb") as file:
        file.seek(bounds[0])
        return file.read(bounds[1] - bounds[0]).decode()
