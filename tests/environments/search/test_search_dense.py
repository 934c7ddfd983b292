"""Dense retrieval: exact, and with vectors that are made once."""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.environments.search.letter_embedder import LetterEmbedder

from agentfly.environments.search import Dense, Hit, Passage, SentenceEmbedder, backend
from agentfly.environments.search.backend import QuestionFileSpec
from agentfly.environments.search.retrieval import RetrievalMethod
from agentfly.environments.search.retrieval import dense as dense_module

WORDS = ("abc", "acb", "xyz", "abd", "aab", "zzz", "xyy", "b")
PASSAGES = tuple(Passage(id=word, title="", text=word) for word in WORDS)


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


def test_dense_ranks_by_the_cosine_over_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_module, "BLOCK", 3)
    embedder = LetterEmbedder()
    passages = [Passage(id=w, title="", text=w) for w in WORDS]
    hits = Dense.in_memory(passages, embedder).search("abc", 4)
    exact = embedder.embed([p.text for p in passages]) @ embedder.embed(["abc"])[0]
    best = sorted(range(len(passages)), key=lambda n: (-exact[n], n))[:4]
    assert ids(hits) == [passages[n].id for n in best]
    assert ids(hits)[:2] == ["abc", "acb"]
    assert hits[0].score == pytest.approx(1.0)


def test_dense_takes_any_k_and_query() -> None:
    dense = Dense.in_memory(PASSAGES, LetterEmbedder())
    assert len(dense.search("cats", 99)) == 8
    assert dense.search("cats", 0) == dense.search(" ", 3) == []
    assert len(dense.search("x" * 2**20, 2)) == 2


def test_embedders_of_one_model_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use = threading.Lock()
    loaded: list[str] = []

    class Model:
        def __init__(self, name: str, *, trust_remote_code: bool) -> None:
            assert not trust_remote_code
            loaded.append(name)
            threading.Event().wait(0.05)

        def encode(self, texts: list[str], **options: object) -> int:
            assert in_use.acquire(blocking=False), "two threads at once"
            threading.Event().wait(0.01)
            in_use.release()
            return len(texts)

    library = SimpleNamespace(SentenceTransformer=Model)
    monkeypatch.setattr(dense_module, "import_extra", lambda package, **_: library)
    together = threading.Barrier(8)

    def embed(_: int) -> object:
        together.wait()
        return SentenceEmbedder("a model for this test").embed(["x"])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(embed, range(8))) == [1] * 8
    assert len(loaded) == 1


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTFLY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def embedded(make: Callable[[LetterEmbedder], Dense], name: str = "letters") -> int:
    """Return how many texts are embedded to make it."""
    embedder = LetterEmbedder(name)
    assert ids(make(embedder).search("abc", 2)) == ["abc", "acb"]
    return embedder.embedded - 1  # the query


@pytest.mark.usefixtures("cache")
def test_vectors_of_the_same_passages_and_model_are_made_once() -> None:
    assert embedded(lambda one: Dense.cached(PASSAGES, one)) == 8
    assert embedded(lambda one: Dense.cached(list(PASSAGES), one)) == 0
    assert embedded(lambda one: Dense.cached(PASSAGES[:-1], one)) == 7
    assert embedded(lambda one: Dense.cached(PASSAGES, one), "digits") == 8
    retitled = [Passage(id=p.id, title="e", text=p.text) for p in PASSAGES]
    assert embedded(lambda one: Dense.cached(retitled, one)) == 8


def test_a_cache_that_cannot_be_written_costs_time_and_no_more(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        assert embedded(lambda one: Dense.cached(PASSAGES, one)) == 8
    assert "vectors can't be kept in" in caplog.text


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("by", ["dense", "hybrid"])
def test_the_passages_of_a_question_file_are_embedded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: RetrievalMethod
) -> None:
    paragraphs = [{"context": word, "qas": [_question(word)]} for word in WORDS]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"title": "e", "paragraphs": paragraphs}]}))
    counts = []
    for _ in range(2):
        embedder = LetterEmbedder()
        monkeypatch.setattr(backend, "SentenceEmbedder", lambda one=embedder: one)
        hits = QuestionFileSpec(str(path), "squad", by).open().retriever.search("acb", 2)
        assert {hit.passage.text for hit in hits} == {"abc", "acb"}
        counts.append(embedder.embedded)
    assert counts == [8 + 1, 1]


def _question(word: str) -> dict[str, object]:
    return {"id": word, "question": "?", "answers": [{"text": word}]}
