"""The side of a worker that runs on its node: the base of all actors.

The standard output and the log messages of a worker are kept until the driver collects them.
"""

import asyncio
import logging
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, cast

from agentfly.resources.placement.worker import Answer, memory_mb, portable

MAX_LINES = 10_000
"""Lines that a worker keeps until they are collected; the oldest are dropped first."""
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker's lines since the last report, and its state."""

    lines: tuple[str, ...]
    dropped: int
    """Number of lines that were lost before."""
    pid: int
    memory_mb: float
    busy: int
    """Number of instances it hosts, or of requests under way."""
    calls: int
    """Number of calls since it started."""


class WorkerActor:
    """Base of the actors."""

    def __init__(self, import_paths: Sequence[str]) -> None:
        add_import_paths(import_paths)
        self._output = OutputLines()
        self._output.install()
        self.calls = 0

    @property
    def busy(self) -> int:
        """Number of things that it works on or hosts."""
        return 0

    async def report(self) -> WorkerReport:
        """Return what happened since the last report."""
        lines, dropped = self._output.take()
        return WorkerReport(
            lines=lines,
            dropped=dropped,
            pid=os.getpid(),
            memory_mb=memory_mb(),
            busy=self.busy,
            calls=self.calls,
        )


def add_import_paths(paths: Sequence[str]) -> None:
    """Import from where the driver imports, as far as this machine has those folders."""
    sys.path.extend(path for path in paths if path not in sys.path)


async def answered(work: Awaitable[Any]) -> bytes:
    """Await something, and pack what came of it or why nothing can be sent."""
    try:
        return pickle.dumps(Answer(value=await work, memory_mb=memory_mb()))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - sent to the driver, which raises it
        return pickle.dumps(Answer(error=portable(error), memory_mb=memory_mb()))


class OutputLines:
    """Lines that this process printed or logged."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._dropped = 0
        self._lock = threading.Lock()

    def install(self) -> None:
        """Collect from now on; Ray's own files keep getting the same."""
        handler = _LineHandler(self)
        handler.setFormatter(logging.Formatter(_FORMAT))
        logging.getLogger().addHandler(handler)
        logging.getLogger("agentfly").setLevel(logging.INFO)
        sys.stdout = cast(TextIO, _Tee(sys.stdout, self))
        sys.stderr = cast(TextIO, _Tee(sys.stderr, self))

    def add(self, line: str) -> None:
        """Keep a line."""
        with self._lock:
            self._dropped += len(self._lines) == MAX_LINES
            self._lines.append(line)

    def take(self) -> tuple[tuple[str, ...], int]:
        """Return all lines and how many were dropped, and forget them."""
        with self._lock:
            lines, dropped = tuple(self._lines), self._dropped
            self._lines.clear()
            self._dropped = 0
        return lines, dropped


class _LineHandler(logging.Handler):
    def __init__(self, lines: OutputLines) -> None:
        super().__init__()
        self._kept = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._kept.add(self.format(record))


class _Tee:
    """A stream that also keeps whole lines."""

    def __init__(self, stream: TextIO, lines: OutputLines) -> None:
        self._stream = stream
        self._kept = lines
        self._rest = ""

    def write(self, text: str) -> int:
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._kept.add(line)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
