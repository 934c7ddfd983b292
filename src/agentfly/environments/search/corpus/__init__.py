"""Passages on disk: documents of many file types, split, and memory-mapped."""

from agentfly.environments.search.corpus.chunking import Chunking, Document, split_document
from agentfly.environments.search.corpus.corpus import Corpus, write_corpus
from agentfly.environments.search.corpus.readers import read_documents

__all__ = ["Chunking", "Corpus", "Document", "read_documents", "split_document", "write_corpus"]
