"""Handlers that behave like each provider of web search, and check how they are asked."""

from tests.engines.http_standin import Received, Reply

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
