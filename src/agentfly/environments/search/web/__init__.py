"""The open web: providers of search behind one protocol, a cache on disk, and pages as text."""

from agentfly.environments.search.web.cache import CachedSearch, DiskCache
from agentfly.environments.search.web.page import PageReader
from agentfly.environments.search.web.provider import Provider, WebResult
from agentfly.environments.search.web.providers import PROVIDERS
from agentfly.environments.search.web.search import WebSearch

__all__ = [
    "PROVIDERS",
    "CachedSearch",
    "DiskCache",
    "PageReader",
    "Provider",
    "WebResult",
    "WebSearch",
]
