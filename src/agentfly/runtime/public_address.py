"""Addresses of hosts, and whether they are on the public internet."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_WITH_IPV4_AT_THE_END = (
    ipaddress.IPv6Network("64:ff9b::/96"),  # NAT64
    ipaddress.IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated (RFC 2765)
)
_NEVER_PUBLIC = (
    ipaddress.IPv6Network("::/96"),  # IPv4 addresses in an outdated form
    ipaddress.IPv6Network("64:ff9b:1::/48"),  # NAT64 of a network's own (RFC 8215)
    ipaddress.IPv6Network("fec0::/10"),  # site-local, deprecated
)


async def resolve_host(host: str, port: int) -> list[Address]:
    """Return the addresses of a host.

    Raises:
        OSError: There is no such host.
        ValueError: The name is not a possible one.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def is_public(address: Address) -> bool:
    """Return whether an address, and any address embedded in it, is on the public internet.

    >>> [is_public(ipaddress.ip_address(x)) for x in ("8.8.8.8", "127.0.0.1", "::ffff:10.0.0.1")]
    [True, False, False]
    """
    if any(address in network for network in _NEVER_PUBLIC):
        return False
    return all(one.is_global and not one.is_multicast for one in _with_embedded(address))


def _with_embedded(address: Address) -> Iterator[Address]:
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _WITH_IPV4_AT_THE_END):
        embedded.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    inner = [one for one in embedded if one is not None]
    # A mapped address itself is reserved; only the embedded one counts.
    if address.ipv4_mapped is None:
        yield address
    yield from inner
