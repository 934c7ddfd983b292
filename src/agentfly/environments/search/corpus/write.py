"""Writing a corpus, one passage at a time, so that none must fit in memory."""

import hashlib
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from agentfly.environments.search.atomic_folder import new_folder, write_manifest
from agentfly.environments.search.corpus.layout import BOUNDS, HASHES, KIND, ORDER, TEXTS, hash_id
from agentfly.environments.search.passage import Passage
from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.extra import import_extra

BUFFERED = 4096
"""Passages between two writes of their numbers."""


def write_corpus(
    folder: Path,
    passages: Iterable[Passage],
    *,
    overlap: int = 0,
    on_passage: Callable[[int], None] | None = None,
) -> None:
    """Write all passages into a new folder; it appears when it is whole.

    Args:
        folder: A new one.
        passages: May be endless as far as memory is concerned.
        overlap: How many words a document's passages repeat of the one before.
        on_passage: Told how many have been written, now and then.
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
    """Appends id, title and text, and where each of them ends."""

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
            # Half of a surrogate pair, which JSON can spell, has no bytes.
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


def _write_ids(half: Path, hashes: "array[int]") -> None:
    """Write the ids' hashes in order, and which passage each is of."""
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
