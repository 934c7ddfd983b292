"""Retrieval: queries per second at 100,000 passages, and what is found of SQuAD's paragraphs.

`python -m benchmarks.search` prints what BM25 finds; with `--dense`, also what vectors and both
together find, which takes some minutes on a CPU. SQuAD is looked for in `../shared/data/squad`, or
where `AGENTFLY_SQUAD` says.
"""

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from agentfly.environments.search import (
    Bm25,
    Dense,
    Hybrid,
    Passage,
    Retriever,
    SentenceEmbedder,
)
from agentfly.environments.search.questions import QuestionSet, load_questions

PASSAGES = 100_000
QUERIES = 2_000
THREADS = 4
VOCABULARY = 30_000
RANKS = (1, 5, 10)
SQUAD = Path(__file__).parents[2] / "shared" / "data" / "squad" / "dev-v2.0.json.gz"

AIMS = {
    "retrieval_qps_100k": "2500 (0.4 ms a query by tantivy alone)",
    "squad_bm25_recall_at_10": "at least 0.9",
}


def measure(*, dense: bool = False) -> dict[str, float]:
    """Return the numbers; of SQuAD only where it is at hand."""
    numbers = {"retrieval_qps_100k": queries_per_second()}
    squad = Path(os.environ.get("AGENTFLY_SQUAD", SQUAD))
    if squad.exists():
        numbers |= squad_recall(load_questions(str(squad), "squad"), dense=dense)
    return numbers


def queries_per_second() -> float:
    """Ask a hundred thousand passages of 40 words, from several threads at once."""
    random = Random(0)
    retriever = Bm25.in_memory(
        [
            Passage(id=str(n), title=_words(random, 2), text=_words(random, 40))
            for n in range(PASSAGES)
        ]
    )
    queries = [_words(random, 3) for _ in range(QUERIES)]
    with ThreadPoolExecutor(THREADS) as threads:
        started = time.perf_counter()
        found = list(threads.map(lambda query: retriever.search(query, 3), queries))
        seconds = time.perf_counter() - started
    assert all(found), "every word is somewhere"
    return QUERIES / seconds


def _words(random: Random, count: int) -> str:
    """Draw words as texts have them: the n-th most frequent n times as seldom as the first."""
    return " ".join(f"w{int(VOCABULARY ** random.random())}" for _ in range(count))


def squad_recall(questions: QuestionSet, *, dense: bool) -> dict[str, float]:
    """Return the share of questions whose own paragraph is among the first hits."""
    retrievers: dict[str, Retriever] = {"bm25": Bm25.in_memory(questions.passages)}
    if dense:
        retrievers["dense"] = Dense.in_memory(questions.passages, SentenceEmbedder())
        retrievers["hybrid"] = Hybrid([retrievers["bm25"], retrievers["dense"]])
    return {
        f"squad_{name}_recall_at_{k}": share
        for name, retriever in retrievers.items()
        for k, share in zip(RANKS, _recall(retriever, questions), strict=True)
    }


def _recall(retriever: Retriever, questions: QuestionSet) -> Sequence[float]:
    ranked = [
        (
            row["support"][0],
            [hit.passage.id for hit in retriever.search(row["question"], RANKS[-1])],
        )
        for row in questions.rows
    ]
    return [sum(wanted in found[:k] for wanted, found in ranked) / len(ranked) for k in RANKS]


if __name__ == "__main__":
    for key, value in measure(dense="--dense" in sys.argv).items():
        print(f"  {key:28}  {value:>10.4g}   {AIMS.get(key, '')}")
