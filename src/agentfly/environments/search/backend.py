"""Backends of the search environment: a retriever, and a function that opens pages.

A `BackendSpec` describes a backend. Specs are small, equal by value and can be sent to other
processes; each process opens a spec once, and all its environments share the backend.
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
"""Prefixes of a server's address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBackend:
    """An opened backend: a retriever, and its pages."""

    retriever: Retriever
    find: Callable[[str], Passage | None]
    """Return a page by its id or address; None if there is none."""


class BackendSpec(Hashable, Protocol):
    """Description of a backend, which can be opened."""

    def open(self) -> SearchBackend:
        """Open the backend; may take minutes."""


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """The passages of a generated world."""

    people: int
    short: bool
    seed: int
    by: RetrievalMethod = "bm25"
    quoted: bool = False

    def open(self) -> SearchBackend:
        """Generate and index them, in a fraction of a second."""
        return _passage_backend(get_world(self).passages, self.by)


@dataclass(frozen=True, slots=True)
class QuestionFileSpec:
    """The passages that come with a file of questions."""

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
        return _passage_backend(passages, self.by)


@dataclass(frozen=True, slots=True)
class FolderSpec:
    """A folder made by `agentfly search index`."""

    folder: str
    by: RetrievalMethod = "bm25"

    def open(self) -> SearchBackend:
        """Memory-map the files of the folder."""
        index = SearchIndex(Path(self.folder))
        return SearchBackend(retriever=index.retriever(self.by), find=index.corpus.find)


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A retrieval server, as `agentfly search serve` and Search-R1 run one."""

    url: str
    token: str | None = field(default=None, repr=False)
    """The server's token; taken from `url` if it is there."""

    def __post_init__(self) -> None:
        url, token = split_token(self.url)
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "token", token or self.token)

    def open(self) -> SearchBackend:
        """Return a client, which connects at the first search; only found pages can be opened."""
        return SearchBackend(
            retriever=RemoteRetriever(self.url, token=self.token), find=lambda _: None
        )


@dataclass(frozen=True, slots=True)
class WebSpec:
    """The open web."""

    provider: str
    url: str | None = None
    requests_per_minute: float | None = None
    """Rate limit for the provider."""
    pages_per_minute: float = PER_MINUTE
    """Rate limit for each host."""
    cache: str | None = None
    """File in which answers are cached for a week."""
    allow_private: bool = False
    """Whether pages of loopback and private addresses may be opened."""

    def open(self) -> SearchBackend:
        """Read the provider's key; no request is sent yet."""
        search = WebSearch(
            self.provider, url=self.url, requests_per_minute=self.requests_per_minute
        )
        cache = DiskCache(self.cache) if self.cache else None
        name = f"{search.name} at {search.url}"
        retriever = CachedSearch(search, cache, name=name) if cache else search
        reader = PageReader(
            cache=cache,
            allow_private=self.allow_private,
            requests_per_minute=self.pages_per_minute,
        )
        return SearchBackend(retriever=retriever, find=reader.read)


def backend_spec(where: str, by: RetrievalMethod = "bm25") -> ServerSpec | FolderSpec:
    """Return the spec of a server's address (with or without token) or of a folder.

    >>> backend_spec("http://localhost:8001"), backend_spec("httpdocs")
    (ServerSpec(url='http://localhost:8001'), FolderSpec(folder='httpdocs', by='bm25'))
    """
    return ServerSpec(where) if where.startswith(HTTP) else FolderSpec(where, by)


_opening = threading.Lock()


def open_backend(spec: BackendSpec) -> SearchBackend:
    """Open a backend, or return the one that this process has opened before."""
    with _opening:  # Many chains start at once; the first one opens the backend for all.
        return _opened(spec)


@cache
def _opened(spec: BackendSpec) -> SearchBackend:
    return spec.open()


@cache
def get_world(spec: WorldSpec) -> World:
    """Return the world of a spec; generated once per process."""
    return World(people=spec.people, short=spec.short, seed=spec.seed, quoted=spec.quoted)


def _passage_backend(passages: tuple[Passage, ...], by: RetrievalMethod) -> SearchBackend:
    by_id = {passage.id: passage for passage in passages}
    return SearchBackend(retriever=_passage_retriever(passages, by), find=by_id.get)


def _passage_retriever(passages: tuple[Passage, ...], by: RetrievalMethod) -> Retriever:
    """Index words in memory, which is fast; vectors are slow to compute, so they are cached."""
    if by == "bm25":
        return Bm25.in_memory(passages)
    dense = Dense.cached(passages, SentenceEmbedder())
    return dense if by == "dense" else Hybrid([Bm25.in_memory(passages), dense])
