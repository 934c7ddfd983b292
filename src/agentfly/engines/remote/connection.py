"""The HTTP client, which is an extra and imported when it is first needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from agentfly.engines.remote.endpoint import Endpoint
from agentfly.engines.remote.retry import UnavailableError
from agentfly.runtime.extra import import_extra

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
"""A server that takes longer to accept a connection is taken for dead."""
IDLE_SECONDS = 2.0
"""Idle connections are dropped before servers do so (uvicorn after 5 s): a request must not be
written to a connection that the other side is closing."""


async def connections(endpoint: Endpoint) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """Open a client, and close it when this generator is closed.

    An event loop that ends closes its asynchronous generators, so no connection outlives it, even
    if nobody closes the engine.
    """
    client = _client(endpoint)
    try:
        yield client
    finally:
        await client.aclose()


def _client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """Make a client that never gives up by itself: the caller's deadline does."""
    httpx = import_httpx()
    client: httpx2.AsyncClient = httpx.AsyncClient(
        base_url=endpoint.url,
        headers=endpoint.headers(),
        limits=httpx.Limits(
            max_keepalive_connections=endpoint.max_concurrent, keepalive_expiry=IDLE_SECONDS
        ),
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        trust_env=not endpoint.is_loopback,
    )
    return client


def broken(where: str, error: Exception) -> UnavailableError:
    """Return what to raise for a connection that could not be made, or broke."""
    return UnavailableError(f"{where}: the connection broke: {type(error).__name__}: {error}")


def import_httpx() -> Any:
    """Import the HTTP library, or say how to get it."""
    return import_extra("httpx2", extra="openai", purpose="talking to a server")
