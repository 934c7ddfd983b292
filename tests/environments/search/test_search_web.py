"""Web search and pages, against a local server that behaves and misbehaves like each provider."""

import asyncio
import ipaddress
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.http_standin import Received, Reply, StandIn, standing_in

from agentfly.engines.remote import Retry
from agentfly.environments.search import CachedSearch, DiskCache, Hit, PageReader, WebSearch, portal
from agentfly.environments.search.library import OnWeb
from agentfly.environments.search.passage import Passage
from agentfly.environments.search.portal import wait_for
from agentfly.environments.search.readable import decode_html, readable
from agentfly.environments.search.ready_made import SearchOptions, place_of
from agentfly.environments.search.web import PROVIDERS, address
from agentfly.environments.search.web.address import is_public
from agentfly.environments.search.web.page import MAX_BYTES
from agentfly.errors import ConfigError, EnvError, ToolError

FAST = Retry(attempts=3, first_wait=0.001, longest_wait=0.01)
KEY = "secret-key"

PAGES = [("Cats", "https://cats.org/", "All about cats"), ("Dogs", "https://dogs.org/", "& dogs")]


async def searxng(received: Received, reply: Reply) -> None:
    assert (received.method, received.path) == ("GET", "/search")
    assert received.query == {"q": "cats & dogs", "format": "json"}
    found = [{"title": t, "url": u, "content": c, "engine": "x"} for t, u, c in PAGES]
    await reply.json({"query": "cats & dogs", "results": found, "number_of_results": 2})


async def serper(received: Received, reply: Reply) -> None:
    assert (received.method, received.path) == ("POST", "/search")
    assert received.headers["x-api-key"] == KEY
    assert received.body == {"q": "cats & dogs", "num": 5}
    found = [{"title": t, "link": u, "snippet": c, "position": 1} for t, u, c in PAGES]
    await reply.json({"searchParameters": {}, "organic": found, "relatedSearches": []})


async def brave(received: Received, reply: Reply) -> None:
    assert (received.method, received.path) == ("GET", "/res/v1/web/search")
    assert received.headers["x-subscription-token"] == KEY
    assert received.query == {"q": "cats & dogs", "count": "5"}
    found = [
        {"title": t, "url": u, "description": c.replace("cats", "<strong>cats</strong>")}
        for t, u, c in PAGES
    ]
    await reply.json({"type": "search", "web": {"type": "search", "results": found}})


async def tavily(received: Received, reply: Reply) -> None:
    assert (received.method, received.path) == ("POST", "/search")
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body == {"query": "cats & dogs", "max_results": 5}
    found = [{"title": t, "url": u, "content": c, "score": 0.9} for t, u, c in PAGES]
    await reply.json({"query": "cats & dogs", "results": found, "response_time": 1.0})


async def wikipedia(received: Received, reply: Reply) -> None:
    assert (received.method, received.path) == ("GET", "/w/api.php")
    assert "agentfly" in received.headers["user-agent"]
    assert received.query["srsearch"] == "cats & dogs"
    assert received.query["srlimit"] == "5"
    found = [
        {"ns": 0, "title": t, "pageid": n, "snippet": f'<span class="searchmatch">{c}</span>'}
        for n, (t, _, c) in enumerate(PAGES)
    ]
    await reply.json({"batchcomplete": "", "query": {"search": found}})


HANDLERS = {
    "searxng": searxng,
    "serper": serper,
    "brave": brave,
    "tavily": tavily,
    "wikipedia": wikipedia,
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        if provider.key_env:
            monkeypatch.setenv(provider.key_env, KEY)


async def ask(provider: str, server: StandIn, **options: Any) -> list[Hit]:
    search = WebSearch(provider, url=server.url, **{"retry": FAST, **options})
    try:
        return await asyncio.to_thread(search.search, "cats & dogs", 5)
    finally:
        await asyncio.to_thread(search.close)


def test_every_provider_is_tried() -> None:
    assert set(HANDLERS) == set(PROVIDERS)


@pytest.mark.parametrize("provider", HANDLERS)
async def test_a_provider_is_asked_and_read_in_its_own_way(provider: str) -> None:
    async with standing_in(HANDLERS[provider]) as server:
        hits = await ask(provider, server)
    assert [(h.passage.title, h.passage.text) for h in hits] == [(t, c) for t, _, c in PAGES]
    assert all(h.passage.id.startswith("http") for h in hits)
    assert [h.score for h in hits] == [1.0, 0.5]


@pytest.mark.parametrize("provider", HANDLERS)
async def test_what_may_pass_is_asked_again(provider: str) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        match len(server.received):
            case 1:
                await reply.json({"error": "slow down"}, 429, {"Retry-After": "0.02"})
            case 2:
                await reply.json({"error": "boom"}, 500)
            case _:
                await HANDLERS[provider](received, reply)

    async with standing_in(handler) as server:
        assert len(await ask(provider, server)) == 2
        assert len(server.received) == 3


async def _html(reply: Reply) -> None:
    await reply.body(b"<html>Just a moment...</html>")


async def _other(reply: Reply) -> None:
    await reply.json({"unexpected": {"error": {"code": "badvalue"}}})


async def _cut(reply: Reply) -> None:
    await reply.body(b'{"results": [{"title": "Ca')


async def _down(reply: Reply) -> None:
    await reply.json({"error": "down"}, 503)


async def _refused(reply: Reply) -> None:
    await reply.json({"error": "who are you?"}, 401)


async def _silent(reply: Reply) -> None:
    await reply.until_hung_up()


async def _dripping(reply: Reply) -> None:
    reply.head(200, {"Content-Length": "1000000"})
    while not reply.hung_up:
        await reply.send(b" ")
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("misbehave", "message"),
    [
        (_html, "should have answered .*list of results"),
        (_other, "should have answered .*list of results"),
        (_cut, "should have answered .*list of results"),
        (_down, r"answered 503: .*down.*attempt 3 of 3"),
        (_refused, "answered 401: .*who are you"),
    ],
)
@pytest.mark.parametrize("provider", HANDLERS)
async def test_a_provider_that_misbehaves_is_no_fault_of_the_model(
    provider: str, misbehave: Callable[[Reply], Awaitable[None]], message: str
) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await misbehave(reply)

    async with standing_in(handler) as server:
        with pytest.raises(EnvError, match=message) as raised:
            await ask(provider, server)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("provider", "query", "told"),
    [
        ("wikipedia", "x" * 301, "at most 300 characters, got 301"),
        ("brave", "x" * 401, "at most 400 characters, got 401"),
        ("brave", "x " * 51, "at most 50 words, got 51"),
        ("tavily", "x" * 401, "at most 400 characters"),
        ("serper", "x" * 1001, "at most 1000 characters"),
    ],
)
async def test_a_query_that_a_provider_would_refuse_is_told_to_the_model(
    provider: str, query: str, told: str
) -> None:
    async with standing_in(HANDLERS[provider]) as server:
        search = WebSearch(provider, url=server.url)
        with closing(search), pytest.raises(ToolError, match=told):
            await asyncio.to_thread(search.search, query, 5)
        assert server.received == []


async def test_half_a_character_can_be_asked_for() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        assert "cats?" in (received.query.get("q"), (received.body or {}).get("q"))
        await reply.json({"results": [], "organic": []})

    async with standing_in(handler) as server:
        for provider in ("searxng", "serper"):
            with closing(WebSearch(provider, url=server.url)) as search:
                assert await asyncio.to_thread(search.search, "cats\ud83d", 5) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [("cirrussearch-query-too-long", ToolError), ("cirrussearch-too-busy-error", EnvError)],
)
async def test_an_error_of_wikipedia_is_whose_it_is(code: str, kind: type[Exception]) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({"error": {"code": code, "info": "The reason."}, "servedby": "mw1"})

    async with standing_in(handler) as server:
        with pytest.raises(kind, match=f"{code}: The reason"):
            await ask("wikipedia", server)


async def test_two_wikipedias_are_told_apart(tmp_path: Path) -> None:
    async def at(server: StandIn) -> list[str]:
        place = OnWeb("wikipedia", url=f"{server.url}/", cache=str(tmp_path / "web.sqlite"))
        hits = await asyncio.to_thread(place.open().retriever.search, "cats & dogs", 5)
        return [hit.passage.id for hit in hits]

    async with standing_in(wikipedia) as one, standing_in(wikipedia) as other:
        for server in (one, other, one):
            assert await at(server) == [f"{server.url}/w/index.php?curid={n}" for n in (0, 1)]
        assert (len(one.received), len(other.received)) == (1, 1)


async def test_a_web_of_ones_own_is_searched_and_opened(tmp_path: Path) -> None:
    async def own(received: Received, reply: Reply) -> None:
        await (searxng if received.path == "/search" else site)(received, reply)

    async with standing_in(own) as server:
        for allow_private in (True, False):
            options = SearchOptions(
                index="web:searxng", provider_url=server.url, allow_private=allow_private
            )
            library = place_of(options).open()
            assert len(await asyncio.to_thread(library.retriever.search, "cats & dogs", 5)) == 2
            if allow_private:
                page = await asyncio.to_thread(library.find, f"{server.url}/cats")
                assert page is not None
                assert page.title == "Cats"
            else:
                with pytest.raises(ToolError, match="not on the public web"):
                    await asyncio.to_thread(library.find, f"{server.url}/cats")


@pytest.mark.parametrize("dawdle", [_silent, _dripping])
async def test_a_provider_that_is_too_slow_is_given_up(
    dawdle: Callable[[Reply], Awaitable[None]],
) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await dawdle(reply)

    async with standing_in(handler) as server:
        with pytest.raises(EnvError, match="gave no whole answer within"):
            await ask("serper", server, seconds=1.5)
        assert len(server.received) == 1
        assert await server.all_hung_up()


async def test_a_wait_longer_than_the_deadline_is_not_begun() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({}, 429, {"Retry-After": "3600"})

    async with standing_in(handler) as server:
        with pytest.raises(EnvError, match="would come after the deadline"):
            await ask("serper", server)


async def test_requests_go_at_the_agreed_pace() -> None:
    async with standing_in(serper) as server:
        slow = WebSearch("serper", url=server.url, requests_per_minute=1, retry=FAST)
        with closing(slow):
            await asyncio.to_thread(slow.search, "cats & dogs", 5)
            with pytest.raises(EnvError, match="limit of 1 requests a minute leaves no turn"):
                await asyncio.to_thread(slow.search, "cats & dogs", 5)
        assert len(server.received) == 1


def test_what_a_provider_needs_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERPER_API_KEY")
    with pytest.raises(ConfigError, match=r"'SERPER_API_KEY' is not set.*key for serper"):
        WebSearch("serper")
    with pytest.raises(ConfigError, match="export SEARXNG_URL="):
        WebSearch("searxng")
    with pytest.raises(ConfigError, match="Did you mean 'brave'"):
        WebSearch("brvae")


class Counting:
    """A retriever that says how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def search(self, query: str, k: int) -> list[Hit]:
        self.asked += 1
        if query == "down":
            raise EnvError("down")
        return [
            Hit(passage=Passage(id=f"{query}{n}", title="ü", text="t"), score=n) for n in range(k)
        ]


def test_answers_are_kept_on_disk_until_they_expire(tmp_path: Path) -> None:
    now = [1000.0]
    counting = Counting()

    def cached() -> CachedSearch:
        cache = DiskCache(tmp_path / "web.sqlite", seconds=60, now=lambda: now[0])
        return CachedSearch(counting, cache, name="counting")

    first = cached().search("cats", 2)
    assert cached().search(" cats ", 2) == first
    assert counting.asked == 1
    cached().search("cats", 3)
    assert counting.asked == 2
    open_before = cached()
    now[0] += 61
    assert open_before.search("cats", 2) == first
    assert counting.asked == 3
    cached()  # what has expired is thrown away
    with sqlite3.connect(tmp_path / "web.sqlite") as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (1,)
    database.close()


def test_failures_are_not_kept(tmp_path: Path) -> None:
    counting = Counting()
    cached = CachedSearch(counting, DiskCache(tmp_path / "web.sqlite"), name="counting")
    for _ in range(2):
        with pytest.raises(EnvError):
            cached.search("down", 1)
    assert counting.asked == 2


async def test_many_threads_share_a_cache(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "web.sqlite")

    def use(number: int) -> str | None:
        cache.put(str(number % 5), str(number % 5))
        return cache.get(str(number % 5))

    async with asyncio.TaskGroup() as tasks:
        used = [tasks.create_task(asyncio.to_thread(use, n)) for n in range(24)]
    assert [task.result() for task in used] == [str(n % 5) for n in range(24)]


def test_a_cache_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "web.sqlite").write_text("not a database, but long enough to be taken for one")
    with pytest.raises(ConfigError, match=r"can't be used: .*Remove it"):
        DiskCache(tmp_path / "web.sqlite")


async def read(url: str, **options: Any) -> Passage:
    reader = PageReader(**{"allow_private": True, "retry": FAST, "seconds": 5.0, **options})
    return await asyncio.to_thread(reader.read, url)


HTML = {"Content-Type": "text/html; charset=utf-8"}
CATS = "<title>Cats</title><nav>Home</nav><article><p>Cätze purr.</article>".encode()
SITE: dict[str, tuple[bytes, int, dict[str, str]]] = {
    "/cats": (CATS, 200, HTML),
    "/plain": (b" words \n", 200, {"Content-Type": "text/plain"}),
    "/moved": (b"", 302, {"Location": "/cats"}),
    "/loop": (b"", 301, {"Location": "/loop"}),
    "/file": (b"", 302, {"Location": "file:///etc/passwd"}),
    "/pdf": (b"%PDF", 200, {"Content-Type": "application/pdf"}),
    "/zip": (b"\x1f\x8b", 200, {**HTML, "Content-Encoding": "gzip"}),
    "/busy": (b"", 429, {"Retry-After": "0.01"}),
}


async def site(received: Received, reply: Reply) -> None:
    if received.path == "/slow":
        await reply.until_hung_up()
    elif received.path == "/endless":
        reply.keep_alive = False
        reply.head(200, {**HTML, "Connection": "close"})
        while not reply.hung_up:
            await reply.send(b"<p>more " + b"x" * 65536)
    else:
        await reply.body(*SITE.get(received.path, (b"no", 404, {})))


async def test_a_page_is_what_a_person_would_read() -> None:
    async with standing_in(site) as server:
        url = f"{server.url}/cats"
        assert await read(url) == Passage(id=url, title="Cats", text="Cätze purr.")
        assert server.received[0].headers["host"] == f"127.0.0.1:{server.port}"
        plain = await read(f"{server.url}/plain")
        assert plain.text == "words"
        moved = await read(f"{server.url}/moved")
        assert (moved.title, moved.id) == ("Cats", f"{server.url}/moved")
        endless = await read(f"{server.url}/endless")
        assert 0 < len(endless.text) <= MAX_BYTES


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nowhere", "answered 404"),
        ("/loop", "redirected more than 5 times"),
        ("/file", "not an address that can be opened"),
        ("/pdf", "is application/pdf: only text and HTML"),
        ("/zip", "came compressed"),
        ("/busy", "answered 429.*attempt 3 of 3"),
    ],
)
async def test_what_is_wrong_with_a_page_is_told_to_the_model(path: str, message: str) -> None:
    async with standing_in(site) as server:
        with pytest.raises(ToolError, match=message):
            await read(server.url + path)


async def test_a_slow_page_is_given_up() -> None:
    async with standing_in(site) as server:
        with pytest.raises(ToolError, match=r"did not answer within 0\.2 s"):
            await read(f"{server.url}/slow", seconds=0.2)
        assert await server.all_hung_up()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/cats",
        "http://localhost:{port}/cats",
        "http://[::1]:{port}/cats",
        "http://[::ffff:127.0.0.1]:{port}/cats",
        "http://2130706433:{port}/cats",
        "http://0x7f.1:{port}/cats",
        "http://0.0.0.0:{port}/cats",
        "http://169.254.169.254/latest/meta-data",
        "http://10.1.2.3/",
        "http://100.64.0.1/",
        "http://[fd00::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
    ],
)
async def test_private_and_loopback_addresses_are_refused(url: str) -> None:
    async with standing_in(site) as server:
        with pytest.raises(ToolError, match=r"not on the public web|there is no host"):
            await read(url.format(port=server.port), allow_private=False)
        assert server.received == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cats",
        "ftp://x/",
        "file:///etc/passwd",
        "http://",
        "http://u:p@x/",
        "http://x:99999/",
        "http://[::1/",
        "javascript:alert(1)",
        "https://" + "x" * 5000,
        "http://h/\x01",
        "http://h/a\nb",
        "http://h/\ud83d",
        "http://h\ud83d/",
        "http://\u2024\u2024/",
        "http://h\uff0fx/",
    ],
)
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(ToolError, match="not an address that can be opened"):
        await read(url)


async def test_a_host_of_other_letters_is_asked_by_its_ascii_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[address.Address]:
        asked.append(host)
        return [ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(address, "look_up", look_up)
    async with standing_in(site) as server:
        for host in ("bücher.example", "ｃats.example"):
            page = await read(f"http://{host}:{server.port}/cats?q=ä")
            assert page.title == "Cats"
        hosts = ["xn--bcher-kva.example", "cats.example"]
        assert asked == hosts
        sent = [received.headers["host"] for received in server.received]
        assert sent == [f"{host}:{server.port}" for host in hosts]


@pytest.mark.parametrize("path", ["/astray", "/nowhere-else"])
async def test_a_redirect_to_nowhere_is_told_to_the_model(path: str) -> None:
    async def redirect(received: Received, reply: Reply) -> None:
        await reply.body(
            b"", 302, {"Location": "http://[bad"} if received.path == "/astray" else {}
        )

    async with standing_in(redirect) as server:
        with pytest.raises(ToolError, match=r"not an address that can be opened|answered 302"):
            await read(server.url + path)


async def test_each_redirect_is_looked_at_and_the_address_is_kept_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads to the public web, whose page leads to a name that does not."""
    addresses = {"start.example": "127.0.0.1", "inside.example": "10.0.0.1"}
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[address.Address]:
        asked.append(host)
        return [ipaddress.ip_address(addresses[host])]

    async def redirect(received: Received, reply: Reply) -> None:
        await reply.body(b"", 302, {"Location": "http://inside.example/admin"})

    monkeypatch.setattr(address, "look_up", look_up)
    monkeypatch.setattr(address, "is_public", lambda one: str(one) == "127.0.0.1")
    async with standing_in(redirect) as server:
        with pytest.raises(ToolError, match=r"'inside\.example' is not on the public web"):
            await read(f"http://start.example:{server.port}/", allow_private=False)
        assert asked == ["start.example", "inside.example"]  # once each
        # The request went to the address that was looked at, under the name that was asked for.
        assert server.received[0].headers["host"] == f"start.example:{server.port}"


async def test_pages_are_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "web.sqlite")
    async with standing_in(site) as server:
        first = await read(f"{server.url}/cats", cache=cache)
        assert await read(f"{server.url}/cats", cache=cache) == first
        assert len(server.received) == 1


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("fe80::1", False),
        ("::ffff:8.8.8.8", True),
        ("::ffff:192.168.0.1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b:1::7f00:1", False),
        ("::127.0.0.1", False),
        ("::8.8.8.8", False),
        ("fec0::1", False),
    ],
)
def test_which_addresses_are_public(text: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(text)) is public


PIECES = [
    "<p>",
    "</p>",
    "<nav>",
    "</nav>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<script>",
    "&amp;",
    "</script>",
    "<title>",
    "</title>",
    "<",
    ">",
    "&#x;",
    "<!",
    "<?",
    "words",
    "<main>",
    "é",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_page_can_be_read(pieces: list[str]) -> None:
    page = readable("".join(pieces))
    assert isinstance(page.text, str)


@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<a b=",
        '<a b=">" ',
        "<a b='<a b=\"",
        "<nav>x",
        "<nav></main>",
        "<main>x",
        "<!--",
        "<![CDATA[",
        "</",
        "<script>",
        "<title>",
        "&#9",
        "&",
        "<",
        " ",
    ],
)
@pytest.mark.timeout(60)
def test_no_page_takes_longer_than_its_length(piece: str) -> None:
    """A quarter of a megabyte takes a second at most; if the work were quadratic, hours."""
    readable("<p>words</p>" + piece * (2**18 // len(piece)))


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ('<a title="x > y">link</a> it\'s', "link it's"),
        ("a < b and <b>c</b>", "a < b and c"),
        ("<script>if (a<b) '</nav>'</script>x", "x"),
        ("<SCRIPT>no</Script >x", "x"),
        ("<svg/>x<iframe/>y", "xy"),
        ("<svg><title>icon</title></svg>x", "x"),
        ("<nav>a<nav>b</nav>c</nav>d", "d"),
        ("<nav><main>a</nav>b", "b"),
        ("x<!-- <p> -->y<!-->z", "xyz"),
        ("x<?php no ?>y<!doctype html>z", "xyz"),
        ("x<a href='unclosed>y</a>", "xy"),
        ("words <a cut", "words"),
        ("&lt;p&gt; &#" + "9" * 5000 + ";", "<p> \ufffd"),
    ],
)
def test_what_is_read_of_odd_pages(page: str, text: str) -> None:
    assert readable(page).text == text


def test_the_title_is_the_pages_own() -> None:
    page = "<title>Cats &amp; <b>dogs</title><svg><title>icon</title></svg>x"
    assert readable(page).title == "Cats & <b>dogs"


@pytest.mark.parametrize(
    "charset", ["idna", "undefined", "punycode", "unicode_escape", "hex", "rot13", "nonsense"]
)
def test_what_is_no_charset_is_read_as_utf8(charset: str) -> None:
    page = f"<meta charset={charset}>ü.b\\u00e9-".encode()
    assert decode_html(page) == decode_html(page, charset) == page.decode()


def test_threads_that_begin_at_once_share_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    portal._loop.cache_clear()
    make, made, together = asyncio.new_event_loop, [], threading.Barrier(16)

    def slowly() -> asyncio.AbstractEventLoop:
        made.append(make())
        threading.Event().wait(0.05)  # as long as others may come in between
        return made[-1]

    async def one() -> int:
        return 1

    def ask_at_once(_: int) -> int:
        together.wait()
        return wait_for(one())

    monkeypatch.setattr(asyncio, "new_event_loop", slowly)
    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(ask_at_once, range(16))) == 16
    assert len(made) == 1
