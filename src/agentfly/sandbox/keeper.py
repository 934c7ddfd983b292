"""Keeps fork servers warm for the whole process, whichever event loop asks.

A server outlives the event loop of the run that started it, because importing its packages takes
seconds. So servers belong to a loop of their own, in a thread of their own, to the end of the
process.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from agentfly.runtime.process import reap
from agentfly.sandbox.box import UnsupportedError
from agentfly.sandbox.inside import open_files
from agentfly.sandbox.warm import PreloadError, WarmServer, WarmSettings

T = TypeVar("T")

CLOSE_SECONDS = 10.0
"""How long the end of the process waits for the end of its servers."""


class Keeper:
    """A thread with an event loop, and the servers that live in it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._servers: dict[WarmSettings, WarmServer] = {}
        self._hopeless: dict[WarmSettings, Callable[[], Exception]] = {}
        self._reaped = False
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
        """Return a live server with these settings, started if need be.

        One that can't be had at all is tried once; one that failed otherwise, again each time.
        """
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
            if settings in self._hopeless:
                raise self._hopeless[settings]()
            server = self._servers.get(settings)
            if server is None or not server.alive:
                if server is not None:
                    await server.close()
                server = self._servers[settings] = await self._start(settings)
            return server

    async def _start(self, settings: WarmSettings) -> WarmServer:
        if not self._reaped:  # What killed runs left behind is ended before anything new begins.
            await asyncio.to_thread(reap)
            open_files.raise_limit()  # Each sandbox takes a descriptor of this process.
            self._reaped = True
        try:
            return await WarmServer.start(settings)
        except (UnsupportedError, PreloadError) as error:
            self._hopeless[settings] = partial(type(error), str(error))
            raise

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
