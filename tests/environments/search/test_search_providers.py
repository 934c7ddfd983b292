"""Web search, against a local server that behaves and misbehaves like each provider."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest
from tests.engines.http_standin import Received, Reply, StandIn, standing_in
from tests.environments.search.provider_standins import HANDLERS, KEY, PAGES, serper

from agentfly.environments.search import Hit, WebSearch
from agentfly.environments.search.web import PROVIDERS
from agentfly.errors import ConfigError, EnvError, ToolError
from agentfly.runtime.http_retry import Retry

FAST = Retry(attempts=3, first_wait=0.001, longest_wait=0.01)


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
async def test_a_query_that_a_provider_would_refuse_is_reported_to_the_model(
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
