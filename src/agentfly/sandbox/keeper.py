"""Keeps fork servers warm for the whole process, whichever event loop asks.

A server outlives the event loop of the run that started it, because importing its packages takes
seconds. So servers belong to a loop of their own, in a thread of their own, to the end of the
process.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from agentfly.sandbox.warm import WarmServer, WarmSettings

T = TypeVar("T")

CLOSE_SECONDS = 10.0
"""How long the end of the process waits for the end of its servers."""


class Keeper:
    """A thread with an event loop, and the servers that live in it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._servers: dict[WarmSettings, WarmServer] = {}
        self._starting = asyncio.Lock()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="sandbox servers", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)

    @property
    def mine(self) -> bool:
        """Whether it is of this process, and not of one that this was forked from."""
        return self._pid == os.getpid()

    async def server(self, settings: WarmSettings) -> WarmServer:
        """Return a live server with these settings, started if need be."""
        return await asyncio.wrap_future(self._submit(self._server(settings)))

    def close(self) -> None:
        """End all servers."""
        if self.mine and self._thread.is_alive():
            self._submit(self._close_servers()).result(CLOSE_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_SECONDS)
            self._loop.close()

    async def _server(self, settings: WarmSettings) -> WarmServer:
        async with self._starting:
            server = self._servers.get(settings)
            if server is None or not server.alive:
                if server is not None:
                    await server.close()
                server = self._servers[settings] = await WarmServer.start(settings)
            return server

    async def _close_servers(self) -> None:
        while self._servers:
            _, server = self._servers.popitem()
            await server.close()

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


_keepers: list[Keeper] = []
_lock = threading.Lock()


def keeper() -> Keeper:
    """Return this process's own keeper."""
    with _lock:
        if not _keepers or not _keepers[-1].mine:
            _keepers.append(Keeper())
        return _keepers[-1]
