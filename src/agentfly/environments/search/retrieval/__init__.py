"""Retrievers behind one protocol: by words, by meaning, by both, or by a server."""

from agentfly.environments.search.retrieval.bm25 import Bm25
from agentfly.environments.search.retrieval.dense import Dense, Embedder, SentenceEmbedder
from agentfly.environments.search.retrieval.index import Hybrid, RetrievalMethod, SearchIndex
from agentfly.environments.search.retrieval.remote import RemoteRetriever, retrieval_server
from agentfly.environments.search.retriever import Retriever

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
