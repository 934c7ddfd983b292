"""Checks of web addresses: a model must not reach the private network it runs in."""

import ipaddress
import re
from urllib.parse import SplitResult, urljoin, urlsplit

from agentfly.errors import ToolError
from agentfly.runtime.public_address import is_public, resolve_host

MAX_URL = 2000

_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and lone surrogates, which can't be encoded."""


def parse_url(url: str) -> SplitResult:
    """Split a web address; ToolError if it can't be opened.

    A non-ASCII host is returned in its ASCII form:

    >>> parse_url("https://Bücher.example:8080/ä").netloc
    'xn--bcher-kva.example:8080'
    """
    try:
        parts = urlsplit(url.strip())
        if _is_web(parts) and len(url) <= MAX_URL and not _UNSENDABLE.search(url.strip()):
            return parts._replace(netloc=_netloc(parts))
    except ValueError:
        pass  # not an address, or an impossible host
    shown = url if len(url) < 200 else f"{url[:200]}…"
    raise ToolError(f"not an address that can be opened: {shown!a}. Use https://host/path.")


def join_url(url: str, moved_to: str) -> str:
    """Return the target of a redirect, which may be relative to the page."""
    try:
        return urljoin(url, moved_to)
    except ValueError:
        return moved_to  # not an address; `parse_url` reports it


def _is_web(parts: SplitResult) -> bool:
    has_port = parts.port is None or parts.port > 0
    is_named = bool(parts.hostname) and parts.username is None
    return parts.scheme in ("http", "https") and has_port and is_named


def _netloc(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{ipaddress.IPv6Address(host)}]"
    elif not host.isascii():
        host = _in_ascii(host)
    return host if parts.port is None else f"{host}:{parts.port}"


def _in_ascii(host: str) -> str:
    import idna  # comes with the HTTP client

    return idna.encode(host, uts46=True).decode()


async def resolve_public_address(host: str, port: int, *, allow_private: bool) -> str:
    """Resolve a host, and return the one address to connect to.

    Connecting to this address instead of the host prevents DNS rebinding.
    """
    try:
        addresses = await resolve_host(host, port)
    except (OSError, ValueError) as error:
        raise ToolError(f"there is no host {host!r}.") from error
    if not allow_private and not all(map(is_public, addresses)):
        raise ToolError(f"{host!r} is not on the public web, and can't be opened.")
    return str(addresses[0])
