"""Search: a corpus, retrievers, the web, tools, rewards, and questions that need them.

corpus/        documents from many kinds of files, split into passages, stored on disk
retriever      the protocol of all retrievers: Passage, Hit, Retriever
retrieval/     BM25, dense, hybrid and remote retrieval, and the folder that holds an index
web/           providers of web search, a cache, pages as text
world/         a generated world with questions of one to three hops
questions/     the usual files of questions
backend        the data that is searched: a world, a file's passages, a folder, a server, the web
environment    the state of one chain's search, and the tools that use it
reward         answer, format and retrieval rewards; players: scripted players
"""

from agentfly.environments.search.builtin import SEARCH, SearchOptions
from agentfly.environments.search.corpus import Chunking, Corpus
from agentfly.environments.search.environment import SearchEnvironment, search_tools
from agentfly.environments.search.retrieval import (
    Bm25,
    Dense,
    Hybrid,
    RemoteRetriever,
    Retriever,
    SearchIndex,
    SentenceEmbedder,
    retrieval_server,
)
from agentfly.environments.search.retriever import Hit, Passage
from agentfly.environments.search.reward import search_reward
from agentfly.environments.search.web import CachedSearch, DiskCache, PageReader, WebSearch

__all__ = [
    "SEARCH",
    "Bm25",
    "CachedSearch",
    "Chunking",
    "Corpus",
    "Dense",
    "DiskCache",
    "Hit",
    "Hybrid",
    "PageReader",
    "Passage",
    "RemoteRetriever",
    "Retriever",
    "SearchEnvironment",
    "SearchIndex",
    "SearchOptions",
    "SentenceEmbedder",
    "WebSearch",
    "retrieval_server",
    "search_reward",
    "search_tools",
]
