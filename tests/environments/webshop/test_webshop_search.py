import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from agentfly.environments.webshop.catalog import Catalog
from agentfly.environments.webshop.product_search import LUCENE_STOP_WORDS, MAX_HITS, SearchIndex
from agentfly.errors import ConfigError

bm25s = pytest.importorskip("bm25s")
stemming = pytest.importorskip("Stemmer")


@pytest.fixture(scope="module")
def index(official: Catalog) -> SearchIndex:
    return SearchIndex(product.indexed_text for product in official.products)


@pytest.fixture(scope="module")
def queries(official_folder: Path) -> list[str]:
    stored: dict[str, list[str]] = json.loads((official_folder / "goal_query_map.json").read_text())
    return [query for some in stored.values() for query in some]


def first_titles(index: SearchIndex, official: Catalog, query: str, count: int) -> list[str]:
    return [official.products[place].title for place in index.find(query)[:count]]


def test_bm25_by_hand() -> None:
    # Three texts of 2, 2 and 4 words; mean 8/3. "mug" is in two of three:
    # idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = ln 1.6, the same for both, so length decides.
    index = SearchIndex(["green mug mug tea", "red mug", "plain plate"])
    # Text 0: tf 2, 2 / (2 + 0.9 * (0.6 + 0.4 * 4 / (8/3))) = 2 / 3.08 = 0.649.
    # Text 1: tf 1, 1 / (1 + 0.9 * (0.6 + 0.4 * 2 / (8/3))) = 1 / 1.81 = 0.552.
    assert index.find("mugs") == (0, 1)
    # "red" adds to text 1 alone.
    assert index.find("red mugs") == (1, 0)


def test_of_equals_the_first_one_is_first_and_the_rest_is_left_out() -> None:
    index = SearchIndex(["red mug"] * 60 + ["plate"])
    assert index.find("mug") == tuple(range(MAX_HITS))


@pytest.mark.parametrize("query", ["s", "", "the of and", "zzzz", "!!!", "☃ ☃"])
def test_nothing_is_found_by_words_that_are_nowhere(query: str) -> None:
    assert SearchIndex(["the red mug", "a plate"]).find(query) == ()


@pytest.mark.parametrize("texts", [[], [""], ["the", "of and", ""], ["!!!"]])
def test_texts_without_a_word_to_find_them_by_are_reported(texts: list[str]) -> None:
    with pytest.raises(ConfigError, match=f"none of the {len(texts)} products has a word"):
        SearchIndex(texts)


def test_making_an_index_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bm25s.logger.setLevel(logging.DEBUG)  # As its import sets it.
    SearchIndex(["red mug"])
    assert caplog.records == []


def test_words_are_cut_as_lucene_cuts_them() -> None:
    index = SearchIndex(["women's running shoes size 7.5", "mens shoes size 7 and 5"])
    assert index.find("women") == (0,)
    assert index.find("run shoe") == (0, 1)
    assert index.find("7.5") == (0,)


def test_repeated_words_count_again() -> None:
    index = SearchIndex(["red plate", "blue mug"])
    assert index.find("red mug") == (0, 1)
    assert index.find("red mug mug") == (1, 0)


def test_the_same_as_bm25s_own_retriever(
    index: SearchIndex, official: Catalog, queries: list[str]
) -> None:
    retriever = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    retriever.index(
        [index._terms(product.indexed_text) for product in official.products], show_progress=False
    )
    for query in queries[::17]:
        terms = [term for term in index._terms(query) if term in retriever.vocab_dict]
        scores = retriever.get_scores(terms) if terms else [0.0] * 1000
        found = index.find(query)
        # Sums in another order differ in the last digits, so places may be swapped among equals.
        theirs = sorted((round(float(score), 4) for score in scores), reverse=True)
        ours = [round(float(scores[place]), 4) for place in found]
        assert ours == pytest.approx([score for score in theirs[:MAX_HITS] if score > 0], abs=2e-4)


def test_a_product_with_every_word_of_a_stored_query_is_found_first(
    index: SearchIndex, official: Catalog, queries: list[str]
) -> None:
    """Where just one product has all words of a query, it is found, and nearly always at once."""
    stemmer = stemming.Stemmer("porter")

    def words(text: str) -> set[str]:
        kept = "".join(c if c.isalnum() else " " for c in text.lower()).split()
        return set(stemmer.stemWords([word for word in kept if word not in LUCENE_STOP_WORDS]))

    texts = [words(product.indexed_text) for product in official.products]
    ranks: list[int] = []
    for query in dict.fromkeys(queries):
        wanted = words(query)
        having = [place for place, text in enumerate(texts) if wanted <= text]
        if len(wanted) >= 3 and len(having) == 1:
            ranks.append(index.find(query).index(having[0]))
    assert len(ranks) >= 150
    # 165 of 167 on the first page. The others are a camera for "black usb mouse", and the like.
    assert sum(rank < 10 for rank in ranks) / len(ranks) >= 0.98
    assert sum(rank == 0 for rank in ranks) / len(ranks) >= 0.7


@pytest.mark.parametrize(
    ("query", "word", "count"),
    [
        ("wood table dark cognac brown", "table", 3),
        ("bluetooth noise cancelling headphones", "bluetooth", 3),
        ("monocular telescope tripod phone mount binoculars", "binoculars", 2),
        ("2 pack gluten free chewy chocolate chip granola bars", "bar", 2),
    ],
)
def test_stored_queries_find_such_things(
    index: SearchIndex, official: Catalog, queries: list[str], query: str, word: str, count: int
) -> None:
    assert query in queries
    titles = first_titles(index, official, query, count)
    assert all(word in title.lower() for title in titles), titles


def test_every_product_is_found_by_its_own_title(index: SearchIndex, official: Catalog) -> None:
    titled = [(place, p.title) for place, p in enumerate(official.products) if p.title]
    ranks = [index.find(title).index(place) for place, title in titled]
    assert len(ranks) == 999  # One has no title at all.
    assert sum(rank == 0 for rank in ranks) >= 990


def test_threads_find_the_same(index: SearchIndex, queries: list[str]) -> None:
    some = queries[:200]
    alone = [index._find(query) for query in some]
    answers: list[Any] = [None] * 8

    def work(number: int) -> None:
        answers[number] = [index._find(query) for query in some]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answer == alone for answer in answers)
