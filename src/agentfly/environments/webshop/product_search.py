"""Product search: BM25 as Lucene computes it, over one index that all sessions share."""

import logging
import re
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from agentfly.errors import ConfigError
from agentfly.runtime.extra import import_extra

MAX_HITS = 50
"""Maximum number of products that a search finds."""
CACHED_QUERIES = 8192
K1, B = 0.9, 0.4

_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then
there these they this to was will with
"""
LUCENE_STOP_WORDS = frozenset(_STOP_WORDS.split())
_TOKEN = re.compile(r"\w+(?:['’.]\w+)*")


class SearchIndex:
    """A read-only inverted index over texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._numpy = _package("numpy")
        self._stemming = threading.Lock()  # A stemmer may not be used by two threads at once.
        self._stemmer = _package("Stemmer").Stemmer("porter")
        words = [self._terms(text) for text in texts]
        if not any(words):
            raise ConfigError(
                f"none of the {len(words)} products has a word to search for: their names, "
                "descriptions, first features and options are empty or stop words"
            )
        bm25 = _package("bm25s").BM25(method="lucene", k1=K1, b=B)
        # Importing bm25s sets its logger to a verbose level.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        bm25.index(words, show_progress=False)
        # Its retriever scores every text for every query; the postings are enough here.
        self._size = len(words)
        self._vocabulary: dict[str, int] = bm25.vocab_dict
        self._scores: Any = bm25.scores["data"]
        self._texts: Any = bm25.scores["indices"]
        self._starts: list[int] = bm25.scores["indptr"].tolist()
        self.find = lru_cache(CACHED_QUERIES)(self._find)

    def _find(self, query: str) -> tuple[int, ...]:
        """Return the positions of the best texts, best first; ties in their original order."""
        terms = [self._vocabulary[t] for t in self._terms(query) if t in self._vocabulary]
        if not terms:
            return ()
        postings = [slice(self._starts[term], self._starts[term + 1]) for term in terms]
        scores = self._numpy.bincount(
            self._numpy.concatenate([self._texts[some] for some in postings]),
            weights=self._numpy.concatenate([self._scores[some] for some in postings]),
            minlength=self._size,
        )
        return tuple(self._best(scores))

    def _best(self, scores: Any) -> Sequence[int]:
        numpy = self._numpy
        found = scores.nonzero()[0]
        if len(found) > MAX_HITS:
            least = -numpy.partition(-scores[found], MAX_HITS - 1)[MAX_HITS - 1]
            found = found[scores[found] >= least]
        order = numpy.argsort(-scores[found], kind="stable")
        best: list[int] = found[order][:MAX_HITS].tolist()
        return best

    def _terms(self, text: str) -> list[str]:
        """Return the stems of a text.

        >>> SearchIndex(["a mug"])._terms("The women's running shoes, size 7.5")
        ['women', 'run', 'shoe', 'size', '7.5']
        """
        words = (word.removesuffix("'s") for word in _TOKEN.findall(text.lower()))
        kept = [word for word in words if word not in LUCENE_STOP_WORDS]
        with self._stemming:
            stems: list[str] = self._stemmer.stemWords(kept)
        return [stem for stem in stems if stem]  # The stem of a lone "s" is empty.


def _package(name: str) -> ModuleType:
    return import_extra(name, extra="webshop", purpose="WebShop")
