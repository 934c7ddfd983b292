"""A folder that can be searched: a corpus and its indexes.

wiki/
    corpus/                    the passages
    bm25/                      made with the corpus
    dense-all-minilm-l6-v2/    vectors of a model, made on request
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from agentfly.environments.search.corpus import Chunking, Corpus
from agentfly.environments.search.retrieval.bm25 import Bm25
from agentfly.environments.search.retrieval.dense import Dense
from agentfly.environments.search.retrieval.embedder import SMALL, Embedder
from agentfly.environments.search.retrieval.hybrid import Hybrid
from agentfly.environments.search.retrieval.retriever import Retriever
from agentfly.errors import ConfigError

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
