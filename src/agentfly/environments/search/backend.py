"""What an environment searches: a retriever, and where its pages are opened.

A place says where a library is. Places are small, equal by value and can be sent to other
processes; each process opens a place once, and all its environments share what was opened.
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

from agentfly.environments.search.questions import QuestionFormat, load_questions
from agentfly.environments.search.retrieval import (
    Bm25,
    Dense,
    Hybrid,
    RemoteRetriever,
    RetrievalMethod,
    Retriever,
    SearchIndex,
    SentenceEmbedder,
)
from agentfly.environments.search.retriever import Passage
from agentfly.environments.search.web import CachedSearch, DiskCache, PageReader, WebSearch
from agentfly.environments.search.web.page import PER_MINUTE
from agentfly.environments.search.world import World
from agentfly.errors import ConfigError
from agentfly.runtime.http.address import split_token

HTTP = ("http://", "https://")
"""How a server's address begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBackend:
    """Something to search and to read in."""

    retriever: Retriever
    find: Callable[[str], Passage | None]
    """Opens a page by its id or address; None if there is none."""


class BackendSpec(Hashable, Protocol):
    """Where a library is."""

    def open(self) -> SearchBackend:
        """Open it; may take long."""


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """The passages of a generated world."""

    people: int
    short: bool
    seed: int
    by: RetrievalMethod = "bm25"

    def open(self) -> SearchBackend:
        """Generate and index them, in a fraction of a second."""
        return _of_passages(get_world(self).passages, self.by)


@dataclass(frozen=True, slots=True)
class QuestionFileSpec:
    """The passages that a file of questions brings along."""

    path: str
    form: QuestionFormat
    by: RetrievalMethod = "bm25"

    def open(self) -> SearchBackend:
        """Read and index them in memory."""
        passages = load_questions(self.path, self.form).passages
        if not passages:
            raise ConfigError(
                f"{self.form} questions bring no passages to search in: name an `index`, such as a "
                "folder made by `agentfly search index`"
            )
        return _of_passages(passages, self.by)


@dataclass(frozen=True, slots=True)
class FolderSpec:
    """A folder made by `agentfly search index`."""

    folder: str
    by: RetrievalMethod = "bm25"

    def open(self) -> SearchBackend:
        """Map its files."""
        index = SearchIndex(Path(self.folder))
        return SearchBackend(retriever=index.retriever(self.by), find=index.corpus.find)


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A retrieval server, as `agentfly search serve` and Search-R1 run one."""

    url: str
    token: str | None = field(default=None, repr=False)
    """Its secret, which is taken out of the address."""

    def __post_init__(self) -> None:
        url, token = split_token(self.url)
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "token", token or self.token)

    def open(self) -> SearchBackend:
        """Connect at the first search; of its pages only those that were found can be opened."""
        return SearchBackend(
            retriever=RemoteRetriever(self.url, token=self.token), find=lambda _: None
        )


@dataclass(frozen=True, slots=True)
class WebSpec:
    """The open web."""

    provider: str
    url: str | None = None
    requests_per_minute: float | None = None
    """To the provider."""
    pages_per_minute: float = PER_MINUTE
    """Of any one host."""
    cache: str | None = None
    """A file in which answers are kept for a week."""
    allow_private: bool = False
    """Whether pages of loopback and private addresses may be opened."""

    def open(self) -> SearchBackend:
        """Look for the key; nothing is asked yet."""
        search = WebSearch(
            self.provider, url=self.url, requests_per_minute=self.requests_per_minute
        )
        kept = DiskCache(self.cache) if self.cache else None
        name = f"{search.name} at {search.url}"
        retriever = CachedSearch(search, kept, name=name) if kept else search
        reader = PageReader(
            cache=kept,
            allow_private=self.allow_private,
            requests_per_minute=self.pages_per_minute,
        )
        return SearchBackend(retriever=retriever, find=reader.read)


def backend_spec(where: str, by: RetrievalMethod = "bm25") -> ServerSpec | FolderSpec:
    """Tell a server's address, with its token or without, from a folder.

    >>> backend_spec("http://localhost:8001"), backend_spec("httpdocs")
    (ServerSpec(url='http://localhost:8001'), FolderSpec(folder='httpdocs', by='bm25'))
    """
    return ServerSpec(where) if where.startswith(HTTP) else FolderSpec(where, by)


_opening = threading.Lock()


def open_backend(place: BackendSpec) -> SearchBackend:
    """Open a place, or return what this process has opened before."""
    with _opening:  # Many chains begin at once; one of them does the work.
        return _opened(place)


@cache
def _opened(place: BackendSpec) -> SearchBackend:
    return place.open()


@cache
def get_world(place: WorldSpec) -> World:
    """Return the world of a place."""
    return World(people=place.people, short=place.short, seed=place.seed)


def _of_passages(passages: tuple[Passage, ...], by: RetrievalMethod) -> SearchBackend:
    by_id = {passage.id: passage for passage in passages}
    return SearchBackend(retriever=_retriever_of(passages, by), find=by_id.get)


def _retriever_of(passages: tuple[Passage, ...], by: RetrievalMethod) -> Retriever:
    """Index words in memory, which is quick; vectors are slow to make, and kept."""
    if by == "bm25":
        return Bm25.in_memory(passages)
    dense = Dense.cached(passages, SentenceEmbedder())
    return dense if by == "dense" else Hybrid([Bm25.in_memory(passages), dense])
