"""Dense retrieval: the nearest vectors, by a flat search over a memory-mapped file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfly.environments.search.corpus import Corpus
from agentfly.environments.search.extras import import_extra
from agentfly.environments.search.folder import new_folder, read_manifest, write_manifest
from agentfly.environments.search.passage import Hit, Passage
from agentfly.environments.search.retrieval.embedder import Embedder, SentenceEmbedder
from agentfly.environments.search.retrieval.retriever import MAX_HITS, MAX_QUERY
from agentfly.errors import ConfigError, FormatError, boundary

if TYPE_CHECKING:
    from agentfly.environments.search.retrieval.embedder import Vectors

KIND = "dense index"
VECTORS = "vectors.npy"
BATCH = 64
"""Passages embedded at once."""
BLOCK = 65_536
"""Vectors compared at once: 100 MB of 384 dimensions."""


class Dense:
    """Ranks by the cosine of query and passage, exactly."""

    def __init__(self, vectors: Vectors, passages: Sequence[Passage], embedder: Embedder) -> None:
        if len(vectors) != len(passages):
            raise ConfigError(f"got {len(vectors)} vectors for {len(passages)} passages")
        self._numpy = import_extra("numpy", "dense retrieval")
        self._vectors = vectors
        self._passages = passages
        self._embedder = embedder

    @classmethod
    def in_memory(cls, passages: Sequence[Passage], embedder: Embedder) -> Dense:
        """Embed a few thousand passages for this process alone."""
        return cls(embedder.embed([passage.headed for passage in passages]), passages, embedder)

    @classmethod
    def create(
        cls,
        folder: Path,
        corpus: Corpus,
        embedder: Embedder,
        *,
        on_passage: Callable[[int], None] | None = None,
    ) -> Dense:
        """Embed a corpus into a new folder, a batch at a time."""
        with new_folder(folder) as half:
            _write_vectors(half / VECTORS, corpus, embedder, on_passage)
            facts = {"kind": KIND, "version": 1, "model": embedder.name}
            write_manifest(half, facts | {"corpus": corpus.fingerprint})
        return cls.open(folder, corpus, embedder)

    @classmethod
    def open(cls, folder: Path, corpus: Corpus, embedder: Embedder | None = None) -> Dense:
        """Open the vectors of a corpus, which are mapped, not read; by default with their model."""
        facts = read_manifest(folder, KIND)
        embedder = embedder or SentenceEmbedder(facts["model"])
        if (facts["corpus"], facts["model"]) != (corpus.fingerprint, embedder.name):
            raise ConfigError(
                f"{folder} holds vectors of {facts['model']!r} for another corpus or model than "
                f"{corpus.folder} and {embedder.name!r}: remove it and index again"
            )
        numpy = import_extra("numpy", "dense retrieval")
        with boundary(
            FormatError, f"opening {folder}, which is damaged: remove it and index again"
        ):
            vectors = numpy.load(folder / VECTORS, mmap_mode="r")
        return cls(vectors, corpus, embedder)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the nearest `k`; equally near ones in the order of the corpus."""
        k = min(k, MAX_HITS, len(self._passages))
        if k < 1 or not query.strip():
            return []
        vector = self._embedder.embed([query[:MAX_QUERY]])[0]
        scores = self._numpy.concatenate(
            [
                self._vectors[start : start + BLOCK] @ vector
                for start in range(0, len(self._vectors), BLOCK)
            ]
        )
        return [
            Hit(passage=self._passages[place], score=float(scores[place]))
            for place in self._best(scores, k)
        ]

    def _best(self, scores: Any, k: int) -> list[int]:
        near = self._numpy.argpartition(-scores, k - 1)[:k]
        ranked = sorted((-float(scores[place]), int(place)) for place in near)
        return [place for _, place in ranked]


def _write_vectors(
    path: Path, corpus: Corpus, embedder: Embedder, on_passage: Callable[[int], None] | None
) -> None:
    numpy = import_extra("numpy", "dense retrieval")
    vectors: Any = None
    for start in range(0, len(corpus), BATCH):
        rows = embedder.embed([passage.headed for passage in corpus[start : start + BATCH]])
        if vectors is None:
            shape = (len(corpus), rows.shape[1])
            vectors = numpy.lib.format.open_memmap(path, "w+", dtype=numpy.float32, shape=shape)
        vectors[start : start + len(rows)] = rows
        if on_passage is not None:
            on_passage(start + len(rows))
    vectors.flush()
