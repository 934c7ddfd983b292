"""The web as a place to search and to read in: a provider, its pages, one cache."""

import asyncio
from pathlib import Path

import pytest
from tests.engines.http_standin import Received, Reply, StandIn, standing_in
from tests.environments.search.page_standins import site
from tests.environments.search.provider_standins import searxng, wikipedia

from agentfly.environments.search import SearchOptions
from agentfly.environments.search.backend import WebSpec
from agentfly.environments.search.builtin import choose_backend
from agentfly.errors import ToolError


async def test_two_wikipedias_are_distinguished(tmp_path: Path) -> None:
    async def at(server: StandIn) -> list[str]:
        place = WebSpec("wikipedia", url=f"{server.url}/", cache=str(tmp_path / "web.sqlite"))
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
            backend = choose_backend(options).open()
            assert len(await asyncio.to_thread(backend.retriever.search, "cats & dogs", 5)) == 2
            if allow_private:
                page = await asyncio.to_thread(backend.find, f"{server.url}/cats")
                assert page is not None
                assert page.title == "Cats"
            else:
                with pytest.raises(ToolError, match="not on the public web"):
                    await asyncio.to_thread(backend.find, f"{server.url}/cats")


async def test_pages_are_opened_at_the_pace_of_the_options() -> None:
    async with standing_in(site) as server:
        options = SearchOptions(
            index="web:searxng",
            provider_url=server.url,
            allow_private=True,
            pages_per_minute=1,
        )
        backend = choose_backend(options).open()
        assert await asyncio.to_thread(backend.find, f"{server.url}/cats")
        with pytest.raises(ToolError, match="limit of 1 requests a minute leaves no turn"):
            await asyncio.to_thread(backend.find, f"{server.url}/plain")
