"""Web search as a retriever: one provider with its key and its rate limit."""

import os
from typing import cast

from agentfly.environments.search.blocking_client import SECONDS, BlockingClient
from agentfly.environments.search.retriever import MAX_HITS, Hit, Passage, replace_surrogates
from agentfly.environments.search.web.provider import Provider, WebAnswer, WebResult
from agentfly.environments.search.web.providers import PROVIDERS
from agentfly.errors import ConfigError, ToolError
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry
from agentfly.runtime.names import look_up

MAX_CONCURRENT = 8
"""Maximum number of concurrent requests to one provider."""


class WebSearch:
    """A retriever that queries a provider. Keys come from environment variables only.

    Args:
        provider: `searxng`, `serper`, `brave`, `tavily` or `wikipedia`, or one of your own.
        url: Its address, if not the public one; for SearXNG by default `SEARXNG_URL`.
        requests_per_minute: Rate limit; further requests wait.
        retry: Retries after 429 (as late as it demands), 5xx and broken connections.
        seconds: Time limit of one query with all retries.
    """

    def __init__(
        self,
        provider: str | Provider,
        *,
        url: str | None = None,
        requests_per_minute: float | None = None,
        retry: Retry | None = None,
        seconds: float = SECONDS,
    ) -> None:
        if isinstance(provider, str):
            provider = look_up(provider, PROVIDERS, "provider of web search")
        self._provider = provider
        self._key = _key(provider)
        self.url = _url(provider, url).rstrip("/")
        endpoint = Endpoint(
            url=self.url,
            max_concurrent=MAX_CONCURRENT,
            requests_per_minute=requests_per_minute,
            request_seconds=seconds,
            retry=retry or Retry(attempts=4),
        )
        self._client = BlockingClient(endpoint, seconds=seconds)

    @property
    def name(self) -> str:
        """Name of the provider."""
        return self._provider.name

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` pages with their snippets; EnvError if the provider fails."""
        k = min(k, MAX_HITS)
        if k < 1 or not query.strip():
            return []
        self._require_short(query)
        call = self._provider.call(replace_surrogates(query), k, self._key)
        answer = self._client.ask(call, self._provider.answer, f"{self.name}'s list of results")
        results = cast("WebAnswer", answer).results()[:k]
        return [
            Hit(passage=self._passage(result), score=1.0 / rank)
            for rank, result in enumerate(results, start=1)
        ]

    def _require_short(self, query: str) -> None:
        """Raise ToolError for a long query: the provider's refusal would look like its failure."""
        most, words = self._provider.max_query, self._provider.max_words
        if len(query) > most:
            raise ToolError(f"a query has at most {most} characters, got {len(query)}.")
        if words is not None and len(query.split()) > words:
            raise ToolError(f"a query has at most {words} words, got {len(query.split())}.")

    def _passage(self, result: WebResult) -> Passage:
        url = f"{self.url}{result.url}" if result.url.startswith("/") else result.url
        return Passage(id=url, title=result.title, text=result.snippet)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _key(provider: Provider) -> str:
    if provider.key_env is None:
        return ""
    key = os.environ.get(provider.key_env)
    if not key:
        raise ConfigError(
            f"the environment variable {provider.key_env!r} is not set: it should hold the key for "
            f"{provider.name}. Set it (export {provider.key_env}=...), or choose another provider"
        )
    return key


def _url(provider: Provider, url: str | None) -> str:
    variable = f"{provider.name.upper()}_URL"
    where = url or provider.url or os.environ.get(variable)
    if not where:
        raise ConfigError(
            f"{provider.name} has no address of its own: say where yours is "
            f"(export {variable}=http://localhost:8080)"
        )
    return where
