"""Changes of run folders, sent to pages as they are seen: server-sent events."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from agentfly.runtime.http.messages import run_in_thread
from agentfly.serve.run_store import RunStore

LOOK_SECONDS = 1.0
"""Time between two looks at the folders."""
NAP_SECONDS = 0.2
"""Time in which a stream notices that the server is being stopped."""
QUIET_SECONDS = 15.0
"""Time after which a line is sent although nothing changed, so that a lost client is noticed."""
_WATCHED = ("config.toml", "metrics.jsonl", "findings.json", "environments.json", "trajectories")

Fingerprint = dict[str, tuple[tuple[int, int], ...]]


def fingerprint(runs: dict[str, Path]) -> Fingerprint:
    """Return sizes and times of the files that change while a run trains."""
    return {name: tuple(_stamps(path)) for name, path in runs.items()}


def _stamps(path: Path) -> list[tuple[int, int]]:
    stamps = [_stamp(path / name) for name in _WATCHED]
    with suppress(OSError), os.scandir(path / "trajectories") as found:
        # Only the file of the step under way grows.
        growing = sorted(entry.path for entry in found if entry.name.endswith(".jsonl"))
        stamps += [_stamp(Path(entry)) for entry in growing]
    return stamps


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError:
        return -1, -1
    return stat.st_size, stat.st_mtime_ns


async def changes(store: RunStore, closing: threading.Event) -> AsyncIterator[bytes]:
    """Yield an event with the names of runs that changed, until the server is being stopped."""
    known = await _look(store)
    yield b"retry: 2000\nevent: ready\ndata: {}\n\n"
    quiet = 0.0
    while not closing.is_set():
        await _sleep(closing)
        seen = await _look(store)
        changed = [name for name in seen if seen[name] != known.get(name)]
        gone = [name for name in known if name not in seen]
        known, quiet = seen, quiet + LOOK_SECONDS
        if changed or gone:
            yield f"event: change\ndata: {json.dumps(changed + gone)}\n\n".encode()
        elif quiet >= QUIET_SECONDS:
            yield b": nothing new\n\n"
        else:
            continue
        quiet = 0.0


async def _look(store: RunStore) -> Fingerprint:
    return await run_in_thread(
        lambda: fingerprint(store.paths()), name="look at runs", seconds=60.0
    )


async def _sleep(closing: threading.Event) -> None:
    left = LOOK_SECONDS
    while left > 0 and not closing.is_set():
        await asyncio.sleep(NAP_SECONDS)
        left -= NAP_SECONDS
