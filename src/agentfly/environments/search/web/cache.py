"""What the web answered, kept on disk for a while: SQLite, for many threads and processes."""

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
"""How long to wait for another process that is writing."""

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value TEXT, until REAL)"


class DiskCache:
    """Texts by key, until they expire.

    Args:
        path: The file; made if it is missing.
        seconds: How long an answer is good for.
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
        """Return what is kept, unless it has expired."""
        with self._connected() as database:
            row = database.execute(
                "SELECT value FROM answers WHERE key = ? AND until > ?", (key, self._now())
            ).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, value: str) -> None:
        """Keep a text from now on."""
        with self._connected() as database:
            database.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)",
                (key, value, self._now() + self._seconds),
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # A connection each time: SQLite's must not pass from thread to thread.
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS)) as database, database:
            yield database


class CachedSearch:
    """A retriever that asks another only what it has not asked before."""

    def __init__(self, retriever: Retriever, cache: DiskCache, *, name: str) -> None:
        self._retriever = retriever
        self._cache = cache
        self._name = name

    def search(self, query: str, k: int) -> list[Hit]:
        """Return what is kept, or else ask and keep it; failures are not kept."""
        key = json.dumps(["search", self._name, " ".join(query.split()), k])
        kept = self._cache.get(key)
        if kept is not None:
            return [
                Hit(passage=Passage(**row["passage"]), score=row["score"])
                for row in json.loads(kept)
            ]
        hits = self._retriever.search(query, k)
        self._cache.put(key, json.dumps([asdict(hit) for hit in hits]))
        return hits
