"""A cache of web answers on disk: SQLite, for many threads and processes."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from agentfly.environments.search.retriever import Hit, Passage, Retriever
from agentfly.errors import ConfigError

DAY = 24 * 3600.0
BUSY_SECONDS = 10.0
"""Time to wait for another process that is writing."""

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value TEXT, until REAL)"


class DiskCache:
    """Texts by key, with an expiry time.

    Args:
        path: The file; created if it is missing.
        seconds: Time until an answer expires.
        now: The time in seconds since 1970; for tests.
    """

    def __init__(
        self, path: str | Path, *, seconds: float = 7 * DAY, now: Callable[[], float] = time.time
    ) -> None:
        self._path = Path(path)
        self._seconds = seconds
        self._now = now
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._connected() as database:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute(_TABLE)
                database.execute("DELETE FROM answers WHERE until <= ?", (now(),))
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(
                f"the cache {self._path} can't be used: {error}. Remove it, or choose another file"
            ) from error

    def get(self, key: str) -> str | None:
        """Return the text of a key; None if it is missing or has expired."""
        with self._connected() as database:
            row = database.execute(
                "SELECT value FROM answers WHERE key = ? AND until > ?", (key, self._now())
            ).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, value: str) -> None:
        """Store a text."""
        with self._connected() as database:
            database.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)",
                (key, value, self._now() + self._seconds),
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # A connection each time: SQLite connections must not be shared by threads.
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS)) as database, database:
            yield database


class CachedSearch:
    """A retriever that caches the hits of another."""

    def __init__(self, retriever: Retriever, cache: DiskCache, *, name: str) -> None:
        self._retriever = retriever
        self._cache = cache
        self._name = name

    def search(self, query: str, k: int) -> list[Hit]:
        """Return cached hits, or search and cache the hits; failures are not cached."""
        key = json.dumps(["search", self._name, " ".join(query.split()), k])
        cached = self._cache.get(key)
        if cached is not None:
            return [
                Hit(passage=Passage(**row["passage"]), score=row["score"])
                for row in json.loads(cached)
            ]
        hits = self._retriever.search(query, k)
        self._cache.put(key, json.dumps([asdict(hit) for hit in hits]))
        return hits
