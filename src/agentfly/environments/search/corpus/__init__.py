"""Passages on disk: read from files of many kinds, cut, and opened without copying."""

from agentfly.environments.search.corpus.corpus import Corpus
from agentfly.environments.search.corpus.cut import Cut, passages_of
from agentfly.environments.search.corpus.document import Document
from agentfly.environments.search.corpus.read import read_documents
from agentfly.environments.search.corpus.write import write_corpus

__all__ = ["Corpus", "Cut", "Document", "passages_of", "read_documents", "write_corpus"]
