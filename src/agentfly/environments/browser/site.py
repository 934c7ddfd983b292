"""Sites: what a task's pages are, how they answer, and how far the task is solved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from agentfly.environments.browser.address import AddressRules

MAX_BODY = 32 << 20
"""Maximum bytes of a page that the environment serves itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request of the browser to a page that the environment serves."""

    url: str
    method: str = "GET"
    body: str = ""

    @property
    def path(self) -> str:
        """Path of the address, such as `/items/3`."""
        return urlsplit(self.url).path or "/"

    @property
    def query(self) -> Mapping[str, str]:
        """Values of the address after the question mark; the last one of each name."""
        return _fields(urlsplit(self.url).query)

    @property
    def form(self) -> Mapping[str, str]:
        """Values of a form that was sent; the last one of each name.

        >>> PageRequest(url="http://site.test/", method="POST", body="a=1&b=").form
        {'a': '1', 'b': ''}
        """
        return _fields(self.body)


def _fields(text: str) -> dict[str, str]:
    found = parse_qs(text, keep_blank_values=True, max_num_fields=1000)
    return {name: values[-1] for name, values in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """An answer to a request."""

    body: bytes = b""
    media_type: str = "text/html; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def html(cls, text: str) -> "PageResponse":
        """Return a page."""
        return cls(body=text.encode(errors="replace"))

    @classmethod
    def redirect(cls, url: str) -> "PageResponse":
        """Send the browser to another page, after a form."""
        return cls(status=HTTPStatus.SEE_OTHER, headers={"Location": url})

    @classmethod
    def not_found(cls) -> "PageResponse":
        """Return a page that says that there is none."""
        text = "<!doctype html><title>Not found</title><h1>There is no such page.</h1>"
        return cls(body=text.encode(), status=HTTPStatus.NOT_FOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far a task is solved."""

    reward: float = 0.0
    done: bool = False
    """Whether nothing more can change it."""
    parts: Mapping[str, float] = field(default_factory=dict)


class ScriptError(Exception):
    """Exception thrown by a script in a page."""


class PageView(Protocol):
    """The current page, as checks see it."""

    @property
    def url(self) -> str:
        """Address of the page."""

    async def evaluate(self, expression: str) -> Any:
        """Return the JSON value of a JavaScript expression in the page, or of its promise.

        Raises:
            ScriptError: The expression threw an exception.
        """

    async def syntax_error(self, expression: str) -> str | None:
        """Return why a JavaScript expression can't be compiled, None if it can; it is not run."""

    async def text(self) -> str:
        """Return the visible text."""


class Site(Protocol):
    """The pages of one task, for one chain."""

    @property
    def start(self) -> str:
        """Address of the first page."""

    @property
    def rules(self) -> AddressRules:
        """Addresses that may be loaded."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """CSS selectors of what is no part of the task's page."""

    def respond(self, request: PageRequest) -> PageResponse:
        """Answer a request to a host that `rules` says is served. Runs in a thread."""

    async def begin(self, page: PageView) -> str:
        """Begin the task on its first page; return the instruction."""

    async def check(self, page: PageView) -> Outcome:
        """Return how far the task is solved, after a step."""
