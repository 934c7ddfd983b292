"""Several retrievers as one, by reciprocal rank fusion."""

from collections import defaultdict
from collections.abc import Sequence

from agentfly.environments.search.passage import Hit, Passage
from agentfly.environments.search.retrieval.retriever import Retriever
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
