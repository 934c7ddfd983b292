"""Tokens and host names: who may ask a server, and how an address carries its token."""

import hmac
import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

from agentfly.errors import ConfigError

TOKEN_VARIABLE = "AGENTFLY_TOKEN"
"""The environment variable from which the command line takes a token."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::", "")
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:/@\[\]]+))(?::[0-9]*)?", re.IGNORECASE)
_TOKEN = re.compile(r"[!-~]{16,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """The address on which a server listens, and the clients it accepts.

    >>> Listen(host="0.0.0.0", port=8700, allowed_hosts=("envs.example.org",)).port
    8700
    """

    host: str = "127.0.0.1"
    """One of this machine's addresses."""
    port: int = 0
    """0 takes any that is free."""
    token: str | None = field(default=None, repr=False)
    """The secret that every request must carry; a new one is made if not given."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which clients may address the server, besides its own address and `localhost`."""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ConfigError(f"a port is from 0 to 65535, got {self.port}")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise ConfigError(
                "a token has at least 16 visible ASCII characters, and this one does not. Leave "
                "it out to have a random one made"
            )
        for name in self.allowed_hosts:
            if host_name(name) is None:
                raise ConfigError(f"{name!r} is no host name: write it as 'envs.example.org'")

    def access(self) -> "Access":
        """Return the checks of a server that listens here, with a new token if none was chosen."""
        own = [self.host, *_LOOPBACK, *self.allowed_hosts]
        if self.host not in _LOOPBACK:
            own.append(socket.gethostname())
        return Access(
            token=self.token or secrets.token_urlsafe(32),
            hosts=frozenset(name for one in own if (name := host_name(one)) is not None),
            any_address=self.host in _ANY_ADDRESS,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The checks of who may ask a server."""

    token: str = field(repr=False)
    hosts: frozenset[str]
    any_address: bool = False
    """Whether every numeric address is the server's own."""

    def allows_token(self, sent: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(sent.encode(errors="replace"), self.token.encode())

    def allows_host(self, header: str) -> bool:
        """Return whether a Host header names this server.

        A web page whose own name was made to resolve to this machine (DNS rebinding) sends that
        name, which no server here was given.

        >>> access = Access(token="", hosts=frozenset({"localhost"}), any_address=True)
        >>> [access.allows_host(h) for h in ("LOCALHOST:8700", "10.0.0.7:8700", "evil.example")]
        [True, True, False]
        """
        name = host_name(header)
        return name is not None and (name in self.hosts or (self.any_address and _is_address(name)))


def host_name(header: str) -> str | None:
    """Return the name of `name:port` in lower case; None if it is none.

    >>> host_name("Envs.Example.org.:8700"), host_name("[::1]:80"), host_name("::1")
    ('envs.example.org', '::1', '::1')
    >>> host_name("a@b") is None
    True
    """
    if _is_address(header):
        return header.lower()
    found = _HOST.fullmatch(header)
    return (found[1] or found[2]).lower().removesuffix(".") if found else None


def url_of(host: str, port: int) -> str:
    """Write an address under which this machine can be asked.

    >>> url_of("0.0.0.0", 8700), url_of("::1", 80)
    ('http://127.0.0.1:8700', 'http://[::1]:80')
    """
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def with_token(url: str, token: str) -> str:
    """Put a token into an address, from which clients take it out again.

    >>> with_token("http://localhost:8700", "s3cret")
    'http://localhost:8700/?token=s3cret'
    """
    return f"{url.rstrip('/')}/?token={quote(token, safe='')}"


def split_token(url: str) -> tuple[str, str | None]:
    """Take the token out of an address.

    >>> split_token("http://localhost:8700/?token=s3cret"), split_token("http://localhost:8700")
    (('http://localhost:8700', 's3cret'), ('http://localhost:8700', None))
    >>> split_token("http://localhost:8001/retrieve?token=s3cret")
    ('http://localhost:8001/retrieve', 's3cret')
    """
    parts = urlsplit(url)
    tokens = parse_qs(parts.query).get("token", [])
    if not tokens:
        return url, None
    others = "&".join(part for part in parts.query.split("&") if not part.startswith("token="))
    bare = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), others, parts.fragment))
    return bare, tokens[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
