"""A search for text in all chains of a run, continued piece by piece while someone waits for it."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from agentfly.errors import FormatError
from agentfly.observe.chain_filter import ChainFilter
from agentfly.observe.chain_index import decode_line
from agentfly.observe.chain_place import placed_lines
from agentfly.observe.recorded_run import ChainFile, RecordedRun
from agentfly.types.short_text import printable

Found = tuple[str, str]
"""Name of a file, and the id of a chain in it."""


class TextSearch:
    """Chains that hold a text, found so far; files that come later are not searched."""

    def __init__(self, path: Path, text: str) -> None:
        self._filter = ChainFilter(text=text)
        self._needle = _needle(text)
        self._files = list(reversed(RecordedRun(path).chain_files))
        self._total = sum(file.size for file in self._files) or 1
        self._done = 0
        self._lines = self._search()
        self._lock = threading.Lock()
        self.found: set[Found] = set()
        self.share = 0.0
        """Share of the files that is searched."""

    def extend(self, seconds: float) -> None:
        """Continue the search for at most this many seconds."""
        deadline = time.monotonic() + seconds
        with self._lock:
            for _ in self._lines:
                if time.monotonic() > deadline:
                    return
            self.share = 1.0

    def _search(self) -> Iterator[None]:
        """Search line by line."""
        for file in self._files:
            try:
                for place, line in placed_lines(file.path):
                    at = place.member if file.finished else place.start
                    self.share = min(0.999, (self._done + at) / self._total)
                    self._look(file, line)
                    yield
            except (OSError, FormatError):
                # The index reports files that can't be read.
                continue
            finally:
                self._done += file.size

    def _look(self, file: ChainFile, line: bytes) -> None:
        if self._needle is not None and self._needle not in line.lower():
            return
        chain = decode_line(line, str(file.path))
        if self._filter.matches(chain):
            self.found.add((file.path.name, printable(chain.chain_id)))


def _needle(text: str) -> bytes | None:
    """Return bytes that a line with the text has; None where that can't be said.

    >>> _needle("6*7"), _needle("Straße")
    (b'6*7', None)
    """
    return json.dumps(text)[1:-1].lower().encode() if text.isascii() else None
