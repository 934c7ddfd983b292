"""Pages of the web: fetched within a time limit and at a pace; each failure says its cause."""

import asyncio
import ipaddress
from pathlib import Path

import pytest
from tests.engines.http_standin import Received, Reply, standing_in
from tests.environments.search.page_standins import read, site

from agentfly.environments.search import DiskCache, PageReader, Passage
from agentfly.environments.search.web import address
from agentfly.environments.search.web.page import MAX_BYTES
from agentfly.errors import ToolError
from agentfly.runtime.public_address import Address


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
async def test_what_is_wrong_with_a_page_is_reported_to_the_model(path: str, message: str) -> None:
    async with standing_in(site) as server:
        with pytest.raises(ToolError, match=message):
            await read(server.url + path)


async def test_a_slow_page_is_given_up() -> None:
    async with standing_in(site) as server:
        with pytest.raises(ToolError, match=r"did not answer within 0\.2 s"):
            await read(f"{server.url}/slow", seconds=0.2)
        assert await server.all_hung_up()


@pytest.mark.parametrize("path", ["/astray", "/nowhere-else"])
async def test_a_redirect_to_nowhere_is_reported_to_the_model(path: str) -> None:
    async def redirect(received: Received, reply: Reply) -> None:
        await reply.body(
            b"", 302, {"Location": "http://[bad"} if received.path == "/astray" else {}
        )

    async with standing_in(redirect) as server:
        with pytest.raises(ToolError, match=r"not an address that can be opened|answered 302"):
            await read(server.url + path)


async def test_pages_are_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "web.sqlite")
    async with standing_in(site) as server:
        first = await read(f"{server.url}/cats", cache=cache)
        assert await read(f"{server.url}/cats", cache=cache) == first
        assert len(server.received) == 1


@pytest.fixture
def any_host_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve_host(host: str, port: int) -> list[Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(address, "resolve_host", resolve_host)


@pytest.mark.usefixtures("any_host_is_here")
async def test_each_host_is_asked_at_its_own_pace(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "web.sqlite")
    reader = PageReader(cache=cache, allow_private=True, requests_per_minute=1)
    async with standing_in(site) as server:
        cats, dogs = (f"http://{name}.example:{server.port}" for name in ("cats", "dogs"))
        first = await asyncio.to_thread(reader.read, f"{cats}/cats")
        with pytest.raises(ToolError, match="limit of 1 requests a minute leaves no turn"):
            await asyncio.to_thread(reader.read, f"{cats}/plain")
        assert (await asyncio.to_thread(reader.read, f"{dogs}/plain")).text == "words"
        assert await asyncio.to_thread(reader.read, f"{cats}/cats") == first  # kept: no turn needed
        assert len(server.received) == 2


async def test_redirects_and_further_attempts_wait_for_their_turn_too() -> None:
    async with standing_in(site) as server:
        for path in ("/moved", "/busy"):
            reader = PageReader(allow_private=True, requests_per_minute=1)
            with pytest.raises(ToolError, match="leaves no turn"):
                await asyncio.to_thread(reader.read, server.url + path)
        assert [received.path for received in server.received] == ["/moved", "/busy"]
