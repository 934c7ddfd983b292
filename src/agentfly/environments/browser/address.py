"""Rules of addresses: what a page may load, and where a model may go."""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import urljoin, urlsplit

from agentfly.errors import ConfigError

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL = 2000
"""Maximum characters of an address that a model writes; the rest is cut."""
MAX_SHOWN_URL = 200
"""Maximum characters of an address in one line of an observation or an error."""
_HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")


class Access(Enum):
    """Decision about an address."""

    SERVE = auto()
    """The environment itself answers."""
    FETCH = auto()
    """The network answers."""
    REFUSE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRule:
    """Addresses of one host, or of a domain with all hosts below it."""

    host: str
    scheme: str | None = None
    port: int | None = None
    """None means the usual port of the scheme."""
    below: bool = False
    """Whether hosts below it are meant too."""

    @classmethod
    def parse(cls, text: str) -> "AddressRule":
        """Read a rule: a host, `*.` before it for hosts below it too, a port, a scheme.

        >>> AddressRule.parse("https://*.Example.com")
        AddressRule(host='example.com', scheme='https', port=None, below=True)
        """
        scheme, _, rest = text.strip().lower().rpartition("://")
        try:
            parts = urlsplit(f"//{rest}")
            netloc, port = parts.netloc, parts.port
        except ValueError:
            netloc, port = "", None
        host = re.sub(r":\d*$", "", netloc)
        if not _HOST.fullmatch(host) or scheme not in ("", *DEFAULT_PORTS) or port == 0:
            raise ConfigError(
                f"{text!r} is no rule for addresses: write a host such as 'example.com', "
                "'*.example.com' or 'http://localhost:3000'"
            )
        bare = host.removeprefix("*.").strip("[]")
        return cls(host=bare, scheme=scheme or None, port=port, below=host.startswith("*."))

    def allows(self, host: str, port: int, scheme: str | None) -> bool:
        """Return whether a server is meant. A scheme of None is unknown: then the port decides."""
        if host != self.host and not (self.below and host.endswith(f".{self.host}")):
            return False
        if scheme is not None and self.scheme not in (None, scheme):
            return False
        if self.port is not None:
            return port == self.port
        wanted = [self.scheme] if self.scheme else list(DEFAULT_PORTS)
        return port in [DEFAULT_PORTS[one] for one in wanted]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """All rules of one chain: no other address is ever loaded."""

    served: frozenset[str] = frozenset()
    """Hosts that the environment plays itself; nothing is sent to them over a network."""
    allowed: tuple[AddressRule, ...] = ()
    """Servers that may be reached over the network."""

    def access(self, url: str) -> Access:
        """Decide about an address.

        >>> rules = AddressRules(served=frozenset({"shop.test"}))
        >>> rules.access("http://shop.test/a"), rules.access("file:///etc/passwd")
        (<Access.SERVE: 1>, <Access.REFUSE: 3>)
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return Access.REFUSE
        if parts.scheme not in DEFAULT_PORTS or not host or parts.username is not None:
            return Access.REFUSE
        if host in self.served:
            return Access.SERVE
        if self.may_connect(host, port or DEFAULT_PORTS[parts.scheme], scheme=parts.scheme):
            return Access.FETCH
        return Access.REFUSE

    def may_connect(self, host: str, port: int, *, scheme: str | None = None) -> bool:
        """Return whether a server may be reached over the network."""
        return any(rule.allows(host, port, scheme) for rule in self.allowed)

    def names_server(self, host: str, port: int) -> bool:
        """Return whether a rule names this very server: only such a one may be in a local network.

        A name of a domain that is allowed as a whole may point anywhere, its owner decides.
        """
        return any(not rule.below and rule.allows(host, port, None) for rule in self.allowed)


def parse_rules(rules: Iterable[str]) -> tuple[AddressRule, ...]:
    """Read several rules."""
    return tuple(AddressRule.parse(rule) for rule in rules)


def rule_of(url: str) -> AddressRule:
    """Return the rule that allows the server of a start address.

    >>> rule_of("http://localhost:3000/cart")
    AddressRule(host='localhost', scheme='http', port=3000, below=False)
    """
    with suppress(ValueError):
        parts = urlsplit(url)
        rule = AddressRule.parse(f"{parts.scheme}://{parts.netloc}")
        if not rule.below and AddressRules(allowed=(rule,)).access(url) is Access.FETCH:
            return rule
    raise ConfigError(
        "a start address begins with http:// or https:// and names one server, such as "
        f"'http://localhost:3000/', without '*.', user or password; got {url!r}"
    )


def complete_url(text: str, current: str) -> str:
    """Return the address that a model means: whole, without a scheme, or relative to the page.

    >>> complete_url("/cart", "http://shop.test/a/b"), complete_url("shop.test/x", "")
    ('http://shop.test/cart', 'http://shop.test/x')

    Raises:
        ValueError: It can't be read, such as `//[`.
    """
    text = text.strip()[:MAX_URL]
    if re.match(r"[a-z][a-z0-9+.-]*:(?!\d)", text, re.IGNORECASE):
        return text
    if text.startswith(("/", "?", "#", ".")) or ("." not in text and ":" not in text):
        return urljoin(current, text)
    return f"http://{text}"
