"""The checks that every request to our servers passes: host, token, body, errors."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

import h11
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Message, Receive, Scope, Send

from agentfly.runtime.http.address import TOKEN_VARIABLE, Access
from agentfly.runtime.http.messages import RefusalError, json_refusal

MAX_HEAD_BYTES = 1 << 14
"""Maximum size of a request's address and headers."""
DRAIN_BYTES = 1 << 20
DRAIN_SECONDS = 1.0
"""Limits on reading a refused body: a connection that is closed while its client
still sends breaks before the client has read why."""

_CLOSE = {"Connection": "close"}
_TOKEN_NEEDED = (
    "this server needs its token, got {got}: send the header 'Authorization: Bearer TOKEN', or put "
    f"?token=TOKEN behind the address. It was printed when the server started, unless "
    f"{TOKEN_VARIABLE} or `token` set it"
)

_log = logging.getLogger(__name__)

Render = Callable[[RefusalError], Response]
"""Makes an answer of a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Limits on a request's body."""

    max_bytes: int
    seconds: float = 30.0
    """Time limit for the whole body; a client that takes longer is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The routes of a server, and how it answers."""

    routes: Sequence[BaseRoute]
    """Their endpoints may raise `RefusalError`."""
    limits: BodyLimits
    render: Render = json_refusal
    """The function that answers refusals."""
    cookies: bool = False
    """Whether a browser may open `/?token=...` once and is known by a cookie from then on."""


class Guard:
    """An application behind the checks, as uvicorn calls it.

    Args:
        application: What answers requests that pass.
        access: Who may ask.
    """

    def __init__(self, application: Application, access: Access) -> None:
        self._access = access
        self._limits = application.limits
        self._render = application.render
        self._cookies = application.cookies
        handlers = {
            RefusalError: self._on_refusal,
            HTTPException: self._on_http_exception,
            Exception: self._on_bug,
        }
        self._app = Starlette(routes=application.routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", scope["type"]
        answered = False

        async def answer(message: Message) -> None:
            nonlocal answered
            answered = True
            # The connection may have been ended for what came after this request.
            with suppress(h11.LocalProtocolError):
                await send(message)

        try:
            await self._admit(scope, _Incoming(receive), answer)
        except _ClientGoneError:
            return
        except asyncio.CancelledError:
            if not answered:
                await self._render(_stopping())(scope, receive, answer)
            raise

    async def _admit(self, scope: Scope, incoming: "_Incoming", send: Send) -> None:
        request = Request(scope)
        try:
            _require_small_head(scope)
            self._require_host(request.headers)
            by_cookie = self._require_token(request)
            if by_cookie:
                self._require_own_origin(request)
            body = await self._body(request.headers, incoming)
        except RefusalError as refusal:
            await incoming.drain()
            refusal.headers |= _CLOSE
            await self._render(refusal)(scope, incoming.receive, send)
            return
        if self._cookies and not by_cookie and request.method == "GET":
            await self._to_cookie(request)(scope, incoming.receive, send)
            return
        try:
            await self._app(scope, incoming.replaying(body), send)
        except Exception:  # noqa: BLE001 - starlette raises again what is answered
            _log.debug("what `_on_bug` has answered came back", exc_info=True)

    def _require_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self._access.allows_host(host):
            raise RefusalError(
                HTTPStatus.FORBIDDEN,
                "HostNotAllowed",
                f"this server is not known as {host[:100]!r}. Whoever starts it names the hosts "
                "that clients may use: allowed_hosts, or --allow-host",
            )

    def _require_token(self, request: Request) -> bool:
        """Raise unless the token was sent; return whether it came as a cookie."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        sent = [bearer.strip()] if scheme.lower() == "bearer" else []
        sent += request.query_params.getlist("token")
        if any(self._access.allows_token(one) for one in sent):
            return False
        if self._cookies and self._access.allows_token(request.cookies.get(_cookie(request), "")):
            return True
        headers = {"WWW-Authenticate": "Bearer"}
        message = _TOKEN_NEEDED.format(got="another one" if any(sent) else "none")
        raise RefusalError(HTTPStatus.UNAUTHORIZED, "Unauthorized", message, headers)

    def _require_own_origin(self, request: Request) -> None:
        """Refuse what a page of another server on this machine makes the browser send."""
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers["host"]:
            message = f"a page of {origin[:100]!r} may not use this server"
            raise RefusalError(HTTPStatus.FORBIDDEN, "OriginNotAllowed", message)

    def _to_cookie(self, request: Request) -> Response:
        """Take the token out of the address bar, where it would be copied and kept."""
        others = [(key, value) for key, value in parse_qsl(request.url.query) if key != "token"]
        query = f"?{urlencode(others)}" if others else ""
        response = RedirectResponse(f"/{request.url.path.lstrip('/')}{query}", 303)
        # Not strict: a link to the page that someone clicks in a chat or a notebook must open it.
        # Pages of others still can't read anything, nor make the browser send it with a request.
        response.set_cookie(
            _cookie(request), self._access.token, httponly=True, samesite="lax", path="/"
        )
        response.headers["Cache-Control"] = "no-store"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    async def _body(self, headers: Headers, incoming: "_Incoming") -> bytes:
        limit = self._limits.max_bytes
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limit:
            raise _too_large(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                while not incoming.ended:
                    body += await incoming.part()
                    if len(body) > limit:
                        raise _too_large(limit)
        except TimeoutError:
            message = f"the body did not arrive within {self._limits.seconds:g} s"
            raise RefusalError(HTTPStatus.REQUEST_TIMEOUT, "BodyTimeout", message) from None
        return bytes(body)

    async def _on_refusal(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusalError)
        return self._render(error)

    async def _on_http_exception(self, request: Request, error: Exception) -> Response:
        """Answer for starlette: no such path, or not with this method."""
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        message = f"{status.phrase}: {request.method[:20]} {request.url.path[:200]}"
        kind = status.phrase.replace(" ", "")
        return self._render(RefusalError(status, kind, message, error.headers))

    async def _on_bug(self, request: Request, error: Exception) -> Response:
        """Log the error, and send the client nothing about it."""
        endpoint = getattr(request.scope.get("endpoint"), "__name__", "a request")
        _log.error("%s failed", endpoint, exc_info=error)  # The path may name a session.
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        message = "the server failed; its log says why"
        return self._render(RefusalError(status, "InternalError", message, _CLOSE))


class _Incoming:
    """The body of a request, part by part."""

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.ended = False

    async def part(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise _ClientGoneError
        self.ended = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    async def drain(self) -> None:
        """Read what a refused client still sends, within bounds."""
        read = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.ended and read < DRAIN_BYTES:
                    read += len(await self.part())

    def replaying(self, body: bytes) -> Receive:
        """Give the application the body that was read already."""
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await self.receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return replay


class _ClientGoneError(Exception):
    """The client left before its request was whole."""


def _cookie(request: Request) -> str:
    """Name the cookie by the port: browsers send one server's cookies to all ports of a host."""
    server = request.scope["server"]
    return f"agentfly_{server[1] if server else 0}"


def _require_small_head(scope: Scope) -> None:
    """Refuse a long head, which h11 takes if it arrives in one piece."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    if size + sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD_BYTES:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        message = f"address and headers have at most {MAX_HEAD_BYTES} bytes"
        raise RefusalError(status, "HeadTooLarge", message)


def _too_large(limit: int) -> RefusalError:
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return RefusalError(status, "BodyTooLarge", f"a body has at most {limit} bytes")


def _stopping() -> RefusalError:
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return RefusalError(status, "Stopping", "the server is being stopped", _CLOSE)
