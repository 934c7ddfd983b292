"""A small web site, well and badly behaved, and how its pages are read."""

import asyncio
from typing import Any

from tests.engines.http_standin import Received, Reply

from agentfly.environments.search import PageReader, Passage
from agentfly.runtime.http_retry import Retry

QUICK: dict[str, Any] = {
    "allow_private": True,
    "requests_per_minute": None,
    "retry": Retry(attempts=3, first_wait=0.001, longest_wait=0.01),
    "seconds": 5.0,
}

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


async def read(url: str, **options: Any) -> Passage:
    reader = PageReader(**{**QUICK, **options})
    return await asyncio.to_thread(reader.read, url)
