"""A folder that can be searched: a corpus and its indexes.

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

DEPTH = 50
"""How many hits of each are fused, at least: what one ranks low, another may know better."""
RRF_K = 60
"""The constant of Cormack, Clarke and Büttcher (SIGIR 2009): how little the first ranks stand
out."""


class Hybrid:
    """Scores a passage by the sum of 1 / (60 + rank) over the retrievers that found it.

    Ranks are all that counts, so that scores of different kinds need not be comparable.
    """

    def __init__(self, retrievers: Sequence[Retriever]) -> None:
        if len(retrievers) < 2:
            raise ConfigError(f"a hybrid needs at least two retrievers, got {len(retrievers)}")
        self._retrievers = tuple(retrievers)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` of all."""
        depth = max(k, DEPTH)
        return fuse([one.search(query, depth) for one in self._retrievers])[: max(k, 0)]


def fuse(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge rankings of the same passages.

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


RetrievalMethod = Literal["bm25", "dense", "hybrid"]
"""By words, by meaning, or by both."""
ProgressCallback = Callable[[str, int, int | None], None]
"""Told what is being done, how many passages are done, and of how many, if that is known."""


_DENSE = "dense-"


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Tell nobody."""


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
        """Read documents into a new folder, and index their words.

        Args:
            folder: Where. If this is cut short after reading, the words are indexed when they are
                first asked for.
            sources: Files, folders, dumps and names of a hub; see `read_documents`.
            chunking: How long passages are.
            on_stage: Told how far it is.
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
        """Return what searches; by meaning only if there are vectors."""
        if by == "bm25":
            return self.bm25(on_stage)
        dense = Dense.open(self._vectors(), self.corpus)
        return dense if by == "dense" else Hybrid([self.bm25(on_stage), dense])

    def bm25(self, on_stage: ProgressCallback = no_progress) -> Bm25:
        """Open the index of words; make it first if it is missing."""
        folder = self.folder / "bm25"
        if folder.exists():
            return Bm25.open(folder, self.corpus)
        total = len(self.corpus)
        return Bm25.create(folder, self.corpus, on_passage=lambda n: on_stage("indexing", n, total))

    def embed(self, embedder: Embedder, *, on_stage: ProgressCallback = no_progress) -> Dense:
        """Make the vectors of a model, unless they are there."""
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
