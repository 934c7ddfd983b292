"""Where a server is, and how hard it may be leaned on."""

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agentfly.engines.remote.retry import Retry
from agentfly.errors import ConfigError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server to talk to.

    >>> Endpoint(url="https://api.openai.com/v1", api_key_env="OPENAI_API_KEY",
    ...          requests_per_minute=500).is_loopback
    False
    """

    url: str
    """The address that paths such as `/chat/completions` are put behind."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; a key itself is never written down."""
    max_concurrent: int = 256
    """Requests under way at once; others wait."""
    requests_per_minute: float | None = None
    request_seconds: float = 600.0
    """One attempt that takes longer counts as a broken connection, whatever the deadline."""
    retry: Retry = field(default_factory=Retry)

    def __post_init__(self) -> None:
        if not _is_http(self.url):
            raise ConfigError(
                f"a server's url looks like 'http://localhost:8000/v1', got {self.url!r}"
            )
        for name in ("max_concurrent", "requests_per_minute", "request_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} must be greater than 0, got {value!r}")

    @classmethod
    def of(cls, server: "str | Endpoint") -> "Endpoint":
        """Take a plain address for an endpoint without further wishes."""
        return server if isinstance(server, Endpoint) else cls(url=server)

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, where no proxy is ever wanted."""
        return urlsplit(self.url).hostname in _LOOPBACK

    def headers(self) -> dict[str, str]:
        """Return what identifies us, with the key as it is in the environment now."""
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env)
        if not key:
            raise ConfigError(
                f"the environment variable {self.api_key_env!r} is not set: it should hold the key "
                f"for {self.url}. Set it (export {self.api_key_env}=...), or pass api_key_env=None "
                "for a server that needs no key"
            )
        return {"Authorization": f"Bearer {key}"}


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no port, or half an IPv6 address
        return False
