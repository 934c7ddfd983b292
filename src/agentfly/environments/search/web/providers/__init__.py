"""The providers of web search, one file each."""

from collections.abc import Mapping
from types import MappingProxyType

from agentfly.environments.search.web.provider import Provider
from agentfly.environments.search.web.providers.brave import BRAVE
from agentfly.environments.search.web.providers.searxng import SEARXNG
from agentfly.environments.search.web.providers.serper import SERPER
from agentfly.environments.search.web.providers.tavily import TAVILY
from agentfly.environments.search.web.providers.wikipedia import WIKIPEDIA

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {one.name: one for one in (BRAVE, SEARXNG, SERPER, TAVILY, WIKIPEDIA)}
)
"""All providers by name."""

__all__ = ["PROVIDERS"]
