"""BM25 by tantivy, in memory or on disk.

A query is a bag of words: it never passes through tantivy's query language, so that what a model
writes (`AND`, `[`, `a:b`, an open quote) can neither fail nor mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agentfly.environments.search.atomic_folder import new_folder, read_manifest, write_manifest
from agentfly.environments.search.corpus import Corpus
from agentfly.environments.search.retriever import (
    MAX_HITS,
    MAX_QUERY,
    Hit,
    Passage,
    replace_surrogates,
)
from agentfly.errors import ConfigError, FormatError, boundary
from agentfly.runtime.extra import import_extra

if TYPE_CHECKING:
    import tantivy

KIND = "bm25 index"
FIELDS = ("title", "text")
"""Indexed fields; a word scores in each, so words of the short title weigh more."""
LONGEST_WORD = 40
WRITER_BYTES = 64 * 2**20
"""Memory for writing; tantivy needs at least 15 MB."""

_ANALYZER = "words"


class Bm25:
    """Ranks by Okapi BM25 (k1 = 1.2, b = 0.75) over title and text, English stems.

    >>> cats = Passage(id="cats", title="Cats", text="Cats sleep all day.")
    >>> dogs = Passage(id="dogs", title="Dogs", text="Dogs bark at night.")
    >>> [hit.passage.id for hit in Bm25.in_memory([cats, dogs]).search("Who barks?", 3)]
    ['dogs']
    """

    def __init__(self, index: tantivy.Index, passages: Sequence[Passage]) -> None:
        self._schema = index.schema
        self._searcher = index.searcher()
        self._passages = passages

    @classmethod
    def in_memory(cls, passages: Sequence[Passage]) -> Bm25:
        """Index a few thousand passages in the memory of this process."""
        index = _new_index(None)
        _fill(index, passages, on_passage=None)
        return cls(index, passages)

    @classmethod
    def create(
        cls, folder: Path, corpus: Corpus, *, on_passage: Callable[[int], None] | None = None
    ) -> Bm25:
        """Index a corpus into a new folder."""
        with new_folder(folder) as half:
            _fill(_new_index(half), corpus, on_passage)
            write_manifest(half, {"kind": KIND, "version": 1, "corpus": corpus.fingerprint})
        return cls.open(folder, corpus)

    @classmethod
    def open(cls, folder: Path, corpus: Corpus) -> Bm25:
        """Open the index of a corpus; its files are memory-mapped."""
        tantivy_ = _tantivy()
        if read_manifest(folder, KIND)["corpus"] != corpus.fingerprint:
            raise ConfigError(
                f"{folder} was made for another corpus than {corpus.folder}: remove it and index "
                "again"
            )
        with boundary(
            FormatError, f"opening {folder}, which is damaged: remove it and index again"
        ):
            index = tantivy_.Index.open(str(folder))
        index.register_tokenizer(_ANALYZER, _analyzer())
        return cls(index, corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` hits; equal scores in the order of the corpus."""
        words = dict.fromkeys(_analyzer().analyze(replace_surrogates(query[:MAX_QUERY])))
        if not words or k < 1:
            return []
        found = self._searcher.search(self._any_of(words), min(k, MAX_HITS), count=False)
        addresses = [address for _, address in found.hits]
        places = self._searcher.fast_field_values("place", addresses)
        scored = zip(found.hits, places, strict=True)
        ranked = sorted((-float(score), int(place or 0)) for (score, _), place in scored)
        return [Hit(passage=self._passages[place], score=-score) for score, place in ranked]

    def _any_of(self, words: dict[str, None]) -> tantivy.Query:
        tantivy_ = _tantivy()
        parts = [
            (tantivy_.Occur.Should, tantivy_.Query.term_query(self._schema, field, word, "freq"))
            for word in words
            for field in FIELDS
        ]
        any_of: tantivy.Query = tantivy_.Query.boolean_query(parts)
        return any_of


@cache
def _tantivy() -> ModuleType:
    return import_extra("tantivy", extra="search", purpose="BM25 search")


@cache
def _analyzer() -> Any:
    tantivy_ = _tantivy()
    kinds = tantivy_.Filter
    builder = tantivy_.TextAnalyzerBuilder(tantivy_.Tokenizer.simple())
    for one in (
        kinds.remove_long(LONGEST_WORD),
        kinds.lowercase(),
        kinds.ascii_fold(),
        kinds.stemmer("english"),
    ):
        builder = builder.filter(one)
    return builder.build()


def _new_index(folder: Path | None) -> Any:
    tantivy_ = _tantivy()
    schema = tantivy_.SchemaBuilder()
    for field in FIELDS:
        schema.add_text_field(field, tokenizer_name=_ANALYZER, index_option="freq")
    schema.add_integer_field("place", fast=True)
    index = tantivy_.Index(schema.build(), path=None if folder is None else str(folder))
    index.register_tokenizer(_ANALYZER, _analyzer())
    return index


def _fill(
    index: Any, passages: Sequence[Passage], on_passage: Callable[[int], None] | None
) -> None:
    if not passages:
        raise ConfigError("there are no passages to index: give at least one")
    document = _tantivy().Document
    # One thread, so that the same passages give the same index.
    writer = index.writer(heap_size=WRITER_BYTES, num_threads=1)
    for place, passage in enumerate(passages):
        title, text = (replace_surrogates(part) for part in (passage.title, passage.text))
        writer.add_document(document(title=title, text=text, place=place))
        if on_passage is not None and place % 1000 == 0:
            on_passage(place)
    writer.commit()
    writer.wait_merging_threads()
    if on_passage is not None:
        on_passage(len(passages))
    index.reload()
