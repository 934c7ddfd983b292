"""Passages on disk: read from files of many kinds, cut, and opened without copying."""

from agentfly.environments.search.corpus.corpus import Corpus
from agentfly.environments.search.corpus.cut import Chunking, split_document
from agentfly.environments.search.corpus.document import Document
from agentfly.environments.search.corpus.read import read_documents
from agentfly.environments.search.corpus.write import write_corpus

__all__ = ["Chunking", "Corpus", "Document", "read_documents", "split_document", "write_corpus"]
