"""The foundation of our servers, asked by real sockets: limits, deadlines, starting, stopping."""

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.patience import PATIENCE

from agentfly.errors import ConfigError
from agentfly.runtime.http import guard, server
from agentfly.runtime.http.address import Listen, split_token
from agentfly.runtime.http.guard import Application, BodyLimits
from agentfly.runtime.http.messages import RefusalError, json_answer, read_json
from agentfly.runtime.http.server import serving, serving_in_thread

TOKEN = "0123456789abcdef"
LISTEN = Listen(token=TOKEN)
AUTH = f"Authorization: Bearer {TOKEN}"
HOST = "Host: localhost"


def application(*, seconds: float = 30.0, endpoint: Any = None) -> Application:
    async def echo(request: Request) -> Response:
        return json_answer(await read_json(request))

    async def bug(request: Request) -> Response:
        raise KeyError("the inside of the server")

    async def large(request: Request) -> Response:
        return Response(b"x" * (1 << 25))

    routes = [
        Route("/", endpoint or echo, methods=["POST"]),
        Route("/bug", bug),
        Route("/large", large),
    ]
    return Application(routes=routes, limits=BodyLimits(max_bytes=1000, seconds=seconds))


@contextmanager
def talking(url: str) -> Iterator[socket.socket]:
    bare = split_token(url)[0].removeprefix("http://")
    host, _, port = bare.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=PATIENCE)) as end:
        yield end


def answer_of(end: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Read one answer, which must be whole."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += _some(end)
    head, _, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    while len(body) < int(headers["content-length"]):
        body += _some(end)
    return int(first.split()[1]), headers, json.loads(body)


def _some(end: socket.socket) -> bytes:
    part = end.recv(1 << 16)
    assert part, "the server hung up without an answer"
    return part


def is_hung_up(end: socket.socket) -> bool:
    """Tell whether the server closes, without saying more."""
    try:
        return end.recv(1) == b""
    except ConnectionResetError:
        return True


def request(*lines: str, body: bytes = b"", verb: str = "POST", path: str = "/") -> bytes:
    return "\r\n".join([f"{verb} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body


def post(body: bytes, *lines: str) -> bytes:
    kind = (
        ()
        if any("content-type" in line.lower() for line in lines)
        else ("Content-Type: application/json",)
    )
    return request(HOST, AUTH, *kind, f"Content-Length: {len(body)}", *lines, body=body)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_in_thread(application(), LISTEN) as address:
        yield address


def said(url: str, sent: bytes) -> tuple[int, Any]:
    with talking(url) as end:
        end.sendall(sent)
        status, _, answer = answer_of(end)
    return status, answer["error"]["kind"] if "error" in answer else answer


def test_an_honest_request_is_answered(url: str) -> None:
    assert url.endswith(f"/?token={TOKEN}")
    assert said(url, post(b'{"a": [1, 2.5, null]}')) == (200, {"a": [1, 2.5, None]})
    by_query = request(HOST, "Content-Type: application/json", path=f"/?token={TOKEN}")
    assert said(url, by_query) == (200, {})


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (post(b"{"), 400, "BadRequest"),
        (post(b"[]"), 400, "BadRequest"),
        (post(b"\xff\xfe\x00"), 400, "BadRequest"),
        (post(b'{"a": NaN}'), 400, "BadRequest"),
        (post(b'{"a": -Infinity}'), 400, "BadRequest"),
        (post(b'{"a": 1e999}'), 400, "BadRequest"),
        (post(b'{"a": ' + b"9" * 900 + b"}"), 200, None),
        (post(b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}"), 400, "BadRequest"),
        (post(b"[" * 900), 400, "BadRequest"),
        (post(b"{}", "Content-Type: text/plain"), 415, "ContentType"),
        (post(b"{}", "Content-Type: application/json-seq"), 415, "ContentType"),
        (post(b"x" * 1001), 413, "BodyTooLarge"),
        (request(HOST, AUTH, "Content-Length: 99999999999999"), 413, "BodyTooLarge"),
        (request(HOST, AUTH, "Content-Length: -1"), 400, "BadRequest"),
        (request(HOST, AUTH, "Content-Length: 1", "Content-Length: 2"), 400, "BadRequest"),
        (request(HOST, AUTH, "Transfer-Encoding: gzip"), 501, "BadRequest"),
        (
            request(HOST, AUTH, "Transfer-Encoding: chunked", body=b"zz\r\nrubbish"),
            400,
            "BadRequest",
        ),
        (
            request(HOST, AUTH, "Transfer-Encoding: chunked", body=b"3e9\r\n" + b"x" * 1001),
            413,
            "BodyTooLarge",
        ),
        (request(HOST, AUTH, verb="PUT"), 405, "MethodNotAllowed"),
        (request(HOST, AUTH, verb="BREW"), 405, "MethodNotAllowed"),
        (request(HOST, AUTH, verb="CONNECT"), 405, "MethodNotAllowed"),
        (request(HOST, AUTH, path="/nowhere"), 404, "NotFound"),
        (request(HOST, AUTH, path="/../../etc/passwd"), 404, "NotFound"),
        (request(HOST, AUTH, path="/%00%ff"), 404, "NotFound"),
        (request(HOST, AUTH, verb="GET", path="/bug"), 500, "InternalError"),
        (request(HOST), 401, "Unauthorized"),
        (request(HOST, f"Authorization: Basic {TOKEN}"), 401, "Unauthorized"),
        (request(HOST, f"Authorization: Bearer {TOKEN}x"), 401, "Unauthorized"),
        (request(HOST, "Authorization: Bearer \xff\xe9"), 401, "Unauthorized"),
        (request(HOST, f"Cookie: agentfly_0={TOKEN}"), 401, "Unauthorized"),
        (request("Host: evil.example", AUTH), 403, "HostNotAllowed"),
        (request("Host: evil.example", AUTH, "X-Forwarded-Host: localhost"), 403, "HostNotAllowed"),
        (request("Host: localhost", "Host: localhost", AUTH), 400, "BadRequest"),
        (request(AUTH), 400, "BadRequest"),
        (request(HOST, AUTH, "X: " + "y" * 20_000), 431, None),
        (request(HOST, AUTH, "X: " + "y" * 1_000_000), 431, None),
        (request(HOST, AUTH, *["X: y"] * 10_000), 431, None),
        (request(HOST, AUTH, path="/" + "y" * 20_000), 431, None),
        (request(HOST, AUTH, "Bad Header"), 400, "BadRequest"),
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n",
            400,
            "BadRequest",
        ),
        (b"GET / HTTP/9.9\r\n\r\n", 403, "HostNotAllowed"),
    ],
)
def test_what_is_wrong_is_reported_as_json_and_the_server_goes_on(
    url: str, sent: bytes, status: int, kind: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    told_status, told = said(url, sent)
    assert told_status == status
    assert kind is None or told == kind
    assert said(url, post(b'{"still": "here"}')) == (200, {"still": "here"})
    # Only a bug is worth a line in the log, and never with the token.
    assert [r.name for r in caplog.records] == (
        ["agentfly.runtime.http.guard"] if kind == "InternalError" else []
    )
    assert TOKEN not in caplog.text


def test_a_bug_shows_the_client_nothing_about_the_inside(url: str) -> None:
    with talking(url) as end:
        end.sendall(request(HOST, AUTH, verb="GET", path="/bug"))
        assert "inside" not in str(answer_of(end)[2])


def test_a_connection_serves_many_requests_also_after_refusals_of_the_application(url: str) -> None:
    with talking(url) as end:
        for _ in range(3):
            for sent, status in (
                (post(b'{"n": 1}'), 200),
                (post(b"{"), 400),
                (post(b'{"n": 2}'), 200),
            ):
                end.sendall(sent)
                assert answer_of(end)[0] == status


def test_who_has_no_token_does_not_keep_a_connection(url: str) -> None:
    with talking(url) as end:
        end.sendall(request(HOST, "Content-Length: 3", body=b"abc"))
        status, headers, _ = answer_of(end)
        assert (status, headers["connection"]) == (401, "close")
        assert is_hung_up(end)


def test_pipelined_requests_are_answered_in_order(url: str) -> None:
    with talking(url) as end:
        end.sendall(post(b'{"n": 1}') + post(b'{"n": 2}') + b"rubbish\r\n\r\n")
        text = b""
        while part := end.recv(1 << 16):
            text += part
    assert text.index(b'{"n": 1}') < text.index(b'{"n": 2}') < text.index(b"400 Bad Request")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(server, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.2)
    monkeypatch.setattr(guard, "DRAIN_SECONDS", 0.2)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("dripping", [True, False])
def test_headers_that_never_end_are_not_waited_for(dripping: bool) -> None:
    with serving_in_thread(application(), LISTEN) as url:
        for before in (b"", post(b'{"n": 1}')):
            with talking(url) as end:
                end.sendall(before)
                if before:
                    assert answer_of(end)[0] == 200
                end.sendall(b"POST / HTTP/1.1\r\n")
                drip(end, dripping)
                assert answer_of(end)[0] == 408
                assert is_hung_up(end)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("dripping", [True, False])
@pytest.mark.parametrize("length", ["Content-Length: 900", "Transfer-Encoding: chunked"])
def test_a_body_that_never_ends_is_not_waited_for(length: str, dripping: bool) -> None:
    with serving_in_thread(application(seconds=0.3), LISTEN) as url, talking(url) as end:
        end.sendall(request(HOST, AUTH, length))
        drip(end, dripping and "Content" in length)
        status, _, answer = answer_of(end)
        assert (status, answer["error"]["kind"]) == (408, "BodyTimeout")
        assert is_hung_up(end)


def drip(end: socket.socket, dripping: bool) -> None:
    """Send a byte now and then, until the server has had enough."""
    end.setblocking(False)
    for _ in range(2000 if dripping else 0):
        try:
            end.send(b"x")
            assert end.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            break
    end.settimeout(60)


@pytest.mark.usefixtures("hasty")
def test_a_client_that_does_not_read_its_answer_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = threading.Event()

    class Watched(server.Connection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    monkeypatch.setattr(server, "Connection", Watched)
    with serving_in_thread(application(), LISTEN) as url, talking(url) as end:
        end.sendall(request(HOST, AUTH, verb="GET", path="/large"))
        assert lost.wait(60)
        read = 0
        with suppress(ConnectionError):
            while part := end.recv(1 << 20):
                read += len(part)
    assert read < 1 << 25


@pytest.mark.usefixtures("hasty")
def test_a_connection_without_a_request_is_closed() -> None:
    with serving_in_thread(application(), LISTEN) as url, talking(url) as end:
        assert answer_of(end)[0] == 408
        assert is_hung_up(end)


def test_no_part_of_an_answer_waits_for_an_acknowledgement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = []

    class Watched(server.Connection):
        def data_received(self, data: bytes) -> None:
            end = self.transport.get_extra_info("socket")
            options.append(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().data_received(data)

    monkeypatch.setattr(server, "Connection", Watched)
    with serving_in_thread(application(), LISTEN) as url:
        assert _status(url) == 200
    assert options == [1]


def test_too_many_connections_are_refused_and_later_ones_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    with serving_in_thread(application(), LISTEN) as url:
        with talking(url) as first, talking(url) as second:
            for end in (first, second):
                end.sendall(post(b'{"n": 1}'))
                assert answer_of(end)[0] == 200
            with talking(url) as third:
                status, _, answer = answer_of(third)
                assert (status, answer["error"]["kind"]) == (503, "TooManyConnections")
        until(lambda: _status(url) == 200)


def _status(url: str) -> int:
    with talking(url) as end:
        end.sendall(post(b"{}"))
        return answer_of(end)[0]


def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def test_a_port_that_is_taken_is_reported_with_the_way_out() -> None:
    with serving_in_thread(application(), LISTEN) as url:
        port = int(split_token(url)[0].rpartition(":")[2])
        with (
            pytest.raises(ConfigError, match=rf"127.0.0.1:{port}.*another port"),
            serving_in_thread(application(), Listen(port=port)),
        ):
            pass
    with serving_in_thread(application(), Listen(port=port, token=TOKEN)) as again:
        assert _status(again) == 200, "a port is free as soon as its server has ended"


def test_a_server_that_has_ended_leaves_neither_thread_nor_descriptor() -> None:
    with serving_in_thread(application(), LISTEN) as url:
        assert _status(url) == 200  # Whatever is imported or opened once, is now.
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    for _ in range(5):
        with serving_in_thread(application(), LISTEN) as url, talking(url) as end:
            end.sendall(post(b"{}"))
            assert answer_of(end)[0] == 200
            end.sendall(b"POST / HT")
    until(lambda: set(threading.enumerate()) <= threads)
    until(lambda: open_descriptors() <= descriptors)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


async def test_stopping_waits_for_requests_under_way_and_then_cancels_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 1)
    begun, ended = asyncio.Event(), []

    async def endpoint(request: Request) -> Response:
        begun.set()
        try:
            await asyncio.sleep(0.3 if await request.body() == b"{}" else 3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return json_answer("done")

    async with serving(application(endpoint=endpoint), LISTEN) as url:
        quick = await opened(url, post(b"{}"))
        await begun.wait()
        begun.clear()
        slow = await opened(url, post(b'{"slow": 1}'))
        await begun.wait()
    assert (await rest_of(quick)).endswith(b'"done"')
    refused = await rest_of(slow)
    assert b"503" in refused
    assert b'"kind": "Stopping"' in refused
    assert ended == ["cancelled"]


Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def opened(url: str, sent: bytes) -> Connected:
    bare = split_token(url)[0].removeprefix("http://")
    host, _, port = bare.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def rest_of(connected: Connected) -> bytes:
    reader, writer = connected
    text = await reader.read()
    writer.close()
    return text


async def test_what_the_body_raises_comes_out_as_itself() -> None:
    with pytest.raises(ZeroDivisionError):
        async with serving(application(), LISTEN):
            raise ZeroDivisionError


async def test_a_refusal_carries_status_kind_message_and_headers() -> None:
    async def endpoint(request: Request) -> Response:
        raise RefusalError(HTTPStatus.CONFLICT, "Busy", "not now", {"Retry-After": "1"})

    async with serving(application(endpoint=endpoint), LISTEN) as url:
        text = await rest_of(await opened(url, post(b"{}", "Connection: close")))
    assert b"409 Conflict" in text
    assert b"retry-after: 1" in text
    assert text.endswith(b'{"error": {"kind": "Busy", "message": "not now"}}')


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_named_as_the_reason(host: str) -> None:
    with (
        pytest.raises(ConfigError, match="Choose an address of this machine"),
        serving_in_thread(application(), Listen(host=host)),
    ):
        pytest.fail("it must not listen")
