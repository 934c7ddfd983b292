"""Which addresses may be fetched: a model must not reach into the network it runs in."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from agentfly.errors import ToolError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
MAX_URL = 2000


def split_url(url: str) -> SplitResult:
    """Split a web address, or tell the model what is wrong with it."""
    try:
        parts = urlsplit(url.strip())
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        is_web = has_port = False
        parts = urlsplit("")
    if not is_web or not has_port or parts.username is not None or len(url) > MAX_URL:
        shown = url if len(url) < 200 else f"{url[:200]}…"
        raise ToolError(f"not an address that can be opened: {shown!r}. Use https://host/path.")
    return parts


async def public_address(host: str, port: int, *, allow_private: bool) -> str:
    """Look a host up, and return the one address to connect to.

    Whoever connects to what is returned can't be led elsewhere by a second answer of the DNS.
    """
    addresses = await look_up(host, port)
    if not allow_private and not all(map(is_public, addresses)):
        raise ToolError(f"{host!r} is not on the public web, and can't be opened.")
    return str(addresses[0])


async def look_up(host: str, port: int) -> list[Address]:
    """Ask the system for a host's addresses."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"there is no host {host!r}.") from error
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def is_public(address: Address) -> bool:
    """Tell whether an address, and any other that is written inside it, is of the open internet.

    >>> [is_public(ipaddress.ip_address(x)) for x in ("8.8.8.8", "127.0.0.1", "::ffff:10.0.0.1")]
    [True, False, False]
    """
    return all(one.is_global and not one.is_multicast for one in _with_embedded(address))


def _with_embedded(address: Address) -> Iterator[Address]:
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        embedded.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    inner = [one for one in embedded if one is not None]
    # A mapped address is as public as what it stands for; in itself it is reserved.
    if address.ipv4_mapped is None:
        yield address
    yield from inner
