"""Retrievers behind one protocol: by words, by meaning, by both, or by a server."""

from agentfly.environments.search.retrieval.bm25 import Bm25
from agentfly.environments.search.retrieval.dense import Dense
from agentfly.environments.search.retrieval.embedder import Embedder, SentenceEmbedder
from agentfly.environments.search.retrieval.hybrid import Hybrid
from agentfly.environments.search.retrieval.index import RetrievalMethod, SearchIndex
from agentfly.environments.search.retrieval.remote import RemoteRetriever
from agentfly.environments.search.retrieval.retriever import Retriever
from agentfly.environments.search.retrieval.server import retrieval_server

__all__ = [
    "Bm25",
    "Dense",
    "Embedder",
    "Hybrid",
    "RemoteRetriever",
    "RetrievalMethod",
    "Retriever",
    "SearchIndex",
    "SentenceEmbedder",
    "retrieval_server",
]
