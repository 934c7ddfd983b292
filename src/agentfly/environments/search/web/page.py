"""Fetching a page and extracting its text."""

from __future__ import annotations

import json
import ssl
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from agentfly.environments.search.html_text import decode_html, extract_text
from agentfly.environments.search.retriever import Passage
from agentfly.environments.search.web.address import join_url, parse_url, resolve_public_address
from agentfly.environments.search.web.cache import DiskCache
from agentfly.errors import DeadlineError, HttpError, ToolError
from agentfly.runtime.background import run_blocking
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import broken, import_httpx
from agentfly.runtime.http_retry import RateLimit, Retry, refusal, retrying
from agentfly.types import Seed

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 2 * 2**20
"""Maximum size of a page; the rest is not read."""
MAX_REDIRECTS = 5
SECONDS = 15.0
"""Time limit of one page, with all redirects and retries."""
PER_MINUTE = 60.0
"""Rate limit for requests to one host, low enough for any site."""
MAX_HOSTS = 4096
"""Number of hosts with a rate limit in memory; the least recently used is dropped."""
READABLE_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
USER_AGENT = "Mozilla/5.0 (compatible; agentfly)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetched:
    body: bytes
    kind: str
    charset: str | None
    moved_to: str | None = None


class PageReader:
    """Reads pages of the public web; failures are ToolErrors, which the model sees.

    Args:
        cache: Cache of pages.
        allow_private: Whether loopback and private addresses may be opened, for a web of your own.
        requests_per_minute: Rate limit for each host, redirects included; None for no limit.
        retry: Retries after 429, 5xx and broken connections.
        seconds: Time limit of one page with redirects and retries.
    """

    def __init__(
        self,
        *,
        cache: DiskCache | None = None,
        allow_private: bool = False,
        requests_per_minute: float | None = PER_MINUTE,
        retry: Retry | None = None,
        seconds: float = SECONDS,
    ) -> None:
        import_httpx()
        self._cache = cache
        self._allow_private = allow_private
        self._clock = LoopClock()
        # Only the shared loop uses them, so no lock is needed.
        self._limit_of = lru_cache(MAX_HOSTS)(lambda _: RateLimit(requests_per_minute, self._clock))
        self._retry = retry or Retry(attempts=3)
        self._seconds = seconds

    def read(self, url: str) -> Passage:
        """Return a page's title and text; ToolError if it can't be fetched."""
        key = json.dumps(["page", url])
        cached = self._cache.get(key) if self._cache else None
        if cached is not None:
            return Passage(**json.loads(cached))
        try:
            page = _passage(url, run_blocking(self._within_time(url)))
        except (HttpError, DeadlineError) as error:
            raise ToolError(f"the page can't be had now: {error}") from error
        except TimeoutError as error:
            raise ToolError(f"{url} did not answer within {self._seconds:g} s.") from error
        if self._cache:
            self._cache.put(key, json.dumps(asdict(page)))
        return page

    async def _within_time(self, url: str) -> _Fetched:
        deadline = self._clock.now() + self._seconds
        async with self._clock.timeout_at(deadline):
            for _ in range(MAX_REDIRECTS + 1):
                fetched = await self._attempts(url, deadline)
                if fetched.moved_to is None:
                    return fetched
                url = join_url(url, fetched.moved_to)
        raise ToolError(f"{url} was redirected more than {MAX_REDIRECTS} times.")

    async def _attempts(self, url: str, deadline: float) -> _Fetched:
        return await retrying(
            lambda: self._fetch(url, deadline),
            retry=self._retry,
            seed=Seed(0),
            clock=self._clock,
            deadline=deadline,
        )

    async def _fetch(self, url: str, deadline: float) -> _Fetched:
        """Send one request to the checked address, within the host's rate limit."""
        parts = parse_url(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        address = await resolve_public_address(host, port, allow_private=self._allow_private)
        await self._limit_of(host).acquire(deadline)
        return await self._exchange(parts, address)

    async def _exchange(self, parts: SplitResult, address: str) -> _Fetched:
        """Send the request; only uncompressed text is accepted."""
        httpx = import_httpx()
        headers = {
            "Host": parts.netloc,
            "User-Agent": USER_AGENT,
            "Accept": ", ".join(READABLE_TYPES),
            "Accept-Encoding": "identity",  # No decompression bombs.
        }
        # No proxy: it would resolve the host itself.
        async with httpx.AsyncClient(
            verify=_tls(), trust_env=False, timeout=self._seconds, follow_redirects=False
        ) as client:
            request = client.build_request(
                "GET",
                _url(parts).copy_with(host=address),
                headers=headers,
                extensions={"sni_hostname": parts.hostname},
            )
            try:
                response = await client.send(request, stream=True)
                try:
                    return await _read(response, parts.geturl())
                finally:
                    await response.aclose()
            except httpx.TransportError as error:
                raise broken(parts.geturl(), error) from error


def _url(parts: SplitResult) -> httpx2.URL:
    httpx = import_httpx()
    try:
        url: httpx2.URL = httpx.URL(parts.geturl())
    except httpx.InvalidURL as error:
        raise ToolError(f"not an address that can be opened: {error}.") from error
    return url


async def _read(response: httpx2.Response, url: str) -> _Fetched:
    kind = response.headers.get("Content-Type", "text/html").partition(";")[0].strip().lower()
    if response.has_redirect_location:
        return _Fetched(body=b"", kind=kind, charset=None, moved_to=response.headers["Location"])
    if not response.is_success:
        raise refusal(url, response.status_code, b"", response.headers.get("Retry-After"))
    if kind not in READABLE_TYPES:
        raise ToolError(f"{url} is {kind}: only text and HTML can be read.")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ToolError(f"{url} came compressed, against the request: it can't be read.")
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) >= MAX_BYTES:
            break
    return _Fetched(body=body[:MAX_BYTES], kind=kind, charset=response.charset_encoding)


def _passage(url: str, fetched: _Fetched) -> Passage:
    text = decode_html(fetched.body, fetched.charset)
    if fetched.kind == "text/plain":
        return Passage(id=url, title=url, text=text.strip())
    page = extract_text(text)
    return Passage(id=url, title=page.title or url, text=page.text)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
