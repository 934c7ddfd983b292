"""Synchronous code that waits for coroutines."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentfly.runtime import background
from agentfly.runtime.background import run_blocking


def test_threads_that_begin_at_once_share_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    background._loop.cache_clear()
    make, made, together = asyncio.new_event_loop, [], threading.Barrier(16)

    def slowly() -> asyncio.AbstractEventLoop:
        made.append(make())
        threading.Event().wait(0.05)  # as long as others may come in between
        return made[-1]

    async def one() -> int:
        return 1

    def ask_at_once(_: int) -> int:
        together.wait()
        return run_blocking(one())

    monkeypatch.setattr(asyncio, "new_event_loop", slowly)
    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(ask_at_once, range(16))) == 16
    assert len(made) == 1
