"""A searchable folder, a corpus with its indexes; and the fusion of several retrievers.

wiki/
    corpus/                    the passages
    bm25/                      made with the corpus
    dense-all-minilm-l6-v2/    vectors of a model, made on request
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from agentfly.environments.search.corpus import Chunking, Corpus
from agentfly.environments.search.retrieval.bm25 import Bm25
from agentfly.environments.search.retrieval.dense import SMALL, Dense, Embedder
from agentfly.environments.search.retriever import Hit, Passage, Retriever
from agentfly.errors import ConfigError

RetrievalMethod = Literal["bm25", "dense", "hybrid"]
"""Retrieval by words, by embeddings, or by both."""
ProgressCallback = Callable[[str, int, int | None], None]
"""Called with the stage, the number of passages done, and their total if it is known."""
DEPTH = 50
"""Minimum number of hits of each retriever that are fused."""
RRF_K = 60
"""Constant k of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""

_DENSE = "dense-"


class Hybrid:
    """Fuses retrievers by reciprocal rank: the sum of 1 / (60 + rank) over those that found it.

    Only ranks are used, so the scores of the retrievers need not be comparable.
    """

    def __init__(self, retrievers: Sequence[Retriever]) -> None:
        if len(retrievers) < 2:
            raise ConfigError(f"a hybrid needs at least two retrievers, got {len(retrievers)}")
        self._retrievers = tuple(retrievers)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` hits of all retrievers."""
        depth = max(k, DEPTH)
        return fuse([one.search(query, depth) for one in self._retrievers])[: max(k, 0)]


def fuse(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Fuse rankings of the same passages.

    >>> a, b = (Hit(passage=Passage(id=x, title="", text=""), score=9.0) for x in "ab")
    >>> [(hit.passage.id, round(hit.score, 4)) for hit in fuse([[a, b], [b]])]
    [('b', 0.0325), ('a', 0.0164)]
    """
    scores: defaultdict[str, float] = defaultdict(float)
    passages: dict[str, Passage] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            passages[hit.passage.id] = hit.passage
            scores[hit.passage.id] += 1.0 / (RRF_K + rank)
    best = sorted(scores, key=lambda one: -scores[one])  # stable: the first retriever breaks ties
    return [Hit(passage=passages[one], score=scores[one]) for one in best]


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


class SearchIndex:
    """A corpus with its indexes.

    index = SearchIndex.create("wiki", ["docs/"])
    index.retriever("bm25").search("Who barks?", 3)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.corpus = Corpus(self.folder / "corpus")

    @classmethod
    def create(
        cls,
        folder: str | Path,
        sources: Sequence[str | Path],
        *,
        chunking: Chunking | None = None,
        on_stage: ProgressCallback = no_progress,
    ) -> "SearchIndex":
        """Read documents into a new folder, and build the BM25 index.

        Args:
            folder: A new folder. If indexing is interrupted, it is done at the first search.
            sources: Files, folders, dumps and names of a hub; see `read_documents`.
            chunking: Length and overlap of passages.
            on_stage: Called with the progress.
        """
        corpus = Path(folder) / "corpus"
        Corpus.create(
            corpus, sources, chunking=chunking, on_passage=lambda n: on_stage("reading", n, None)
        )
        index = cls(folder)
        index.bm25(on_stage)
        return index

    def retriever(
        self, by: RetrievalMethod = "bm25", *, on_stage: ProgressCallback = no_progress
    ) -> Retriever:
        """Return a retriever; dense and hybrid ones need the vectors of a model."""
        if by == "bm25":
            return self.bm25(on_stage)
        dense = Dense.open(self._vectors(), self.corpus)
        return dense if by == "dense" else Hybrid([self.bm25(on_stage), dense])

    def bm25(self, on_stage: ProgressCallback = no_progress) -> Bm25:
        """Open the BM25 index; build it if it is missing."""
        folder = self.folder / "bm25"
        if folder.exists():
            return Bm25.open(folder, self.corpus)
        total = len(self.corpus)
        return Bm25.create(folder, self.corpus, on_passage=lambda n: on_stage("indexing", n, total))

    def embed(self, embedder: Embedder, *, on_stage: ProgressCallback = no_progress) -> Dense:
        """Open the vectors of a model; compute them if they are missing."""
        folder = self.folder / f"{_DENSE}{Path(embedder.name).name}"
        if folder.exists():
            return Dense.open(folder, self.corpus, embedder)
        total = len(self.corpus)
        return Dense.create(
            folder, self.corpus, embedder, on_passage=lambda n: on_stage("embedding", n, total)
        )

    def _vectors(self) -> Path:
        found = sorted(self.folder.glob(f"{_DENSE}*"))
        if len(found) != 1:
            there = ", ".join(path.name for path in found) or "none"
            raise ConfigError(
                f"{self.folder} should hold vectors of one model, and holds {there}. Make them with"
                f" `agentfly search index --to {self.folder} --dense {SMALL}`, or remove some"
            )
        return found[0]
