"""Documents, and how they are split into passages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator

from agentfly.config import Settings
from agentfly.environments.search.retriever import Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text with a title, before it is split.

    >>> Document(id="cats", title="Cats", text="Cats purr.").where
    'cats'
    """

    id: str
    title: str
    text: str
    where: str = ""
    """File and line of the document, for error messages."""

    def __post_init__(self) -> None:
        if not self.where:
            object.__setattr__(self, "where", self.id)


class Chunking(Settings):
    """Length and overlap of passages."""

    words: int = Field(default=100, ge=1)
    """Maximum number of words. 100 is usual for Wikipedia (arXiv:2004.04906)."""
    overlap: int = Field(default=0, ge=0)
    """Number of words that a passage repeats of the one before it."""

    @model_validator(mode="after")
    def _goes_on(self) -> Self:
        if self.overlap >= self.words:
            raise ValueError(f"overlap={self.overlap} must be less than words={self.words}")
        return self


def split_document(document: Document, chunking: Chunking) -> Iterator[Passage]:
    """Split a document; a short one stays whole and keeps its id and its line breaks.

    >>> long = Document(id="d", title="D", text="a b c d e")
    >>> [(p.id, p.text) for p in split_document(long, Chunking(words=3, overlap=1))]
    [('d#0', 'a b c'), ('d#1', 'c d e')]
    """
    words = document.text.split()
    if len(words) <= chunking.words:
        if words:
            yield Passage(id=document.id, title=document.title, text=document.text.strip())
        return
    step = chunking.words - chunking.overlap
    for number, start in enumerate(range(0, len(words) - chunking.overlap, step)):
        text = " ".join(words[start : start + chunking.words])
        yield Passage(id=chunk_id(document.id, number), title=document.title, text=text)


def chunk_id(document_id: str, number: int) -> str:
    """Return the id of a document's passage.

    >>> chunk_id("cats", 0)
    'cats#0'
    """
    return f"{document_id}#{number}"


def join_chunks(parts: Sequence[str], overlap: int) -> str:
    """Join the passages of a document, without the words they repeat.

    >>> join_chunks(["a b c", "c d e"], overlap=1)
    'a b c d e'
    """
    words: list[str] = []
    for part in parts:
        new = part.split()
        repeated = bool(overlap) and words[-overlap:] == new[:overlap]
        words += new[overlap:] if repeated else new
    return " ".join(words)
