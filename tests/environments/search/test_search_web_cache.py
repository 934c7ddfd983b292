"""What the web answered is kept on disk for a while."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from agentfly.environments.search import CachedSearch, DiskCache, Hit, Passage
from agentfly.errors import ConfigError, EnvError


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
