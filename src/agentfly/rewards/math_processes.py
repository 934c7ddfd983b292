"""Pool of processes that compare mathematical answers."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from enum import Enum
from pathlib import Path

from agentfly.errors import RewardError
from agentfly.runtime.process import PIPE, Child, start

WORKER = Path(__file__).with_name("math_worker.py")
MOST_PROCESSES = 8
"""Maximum number of processes; each takes about 100 MB, and about 10 ms per comparison."""
LIFETIME = 24 * 3600.0
"""Maximum lifetime of a process in seconds; a dead process is replaced."""
OUT_OF_TIME = -signal.SIGXCPU if sys.platform != "win32" else None
"""Return code of a process that the kernel ended at its limit of computing time."""


class Comparison(Enum):
    """Outcome of comparing an answer with the right one."""

    EQUAL = "equal"
    DIFFERENT = "different"
    """Also if the answer contains no mathematics."""
    TOO_HARD = "too hard"
    """The two could not be compared within the computing time."""


class MathProcesses:
    """Pool of processes, started when needed, each of which compares one pair at a time."""

    def __init__(self, size: int) -> None:
        self._free_places = asyncio.Semaphore(size)
        self._idle: list[Child] = []

    async def compare(self, gold: str, answer: str, *, cpu_seconds: int) -> Comparison:
        """Compare; raise RewardError if the right answer can't be read, or a process dies.

        The caller sets the deadline: cancellation kills the process.
        """
        request = json.dumps({"gold": gold, "answer": answer, "cpu_seconds": cpu_seconds})
        async with self._free_places:
            child = await self._take()
            try:
                comparison = await _ask(child, request, gold)
            except BaseException:
                await child.close(grace=0)
                raise
            self._idle.append(child)
        return comparison

    async def close(self) -> None:
        """End all processes."""
        while self._idle:
            await self._idle.pop().close(grace=0)

    async def _take(self) -> Child:
        """Return an idle process that is still alive, or start one."""
        while self._idle:
            child = self._idle.pop()
            if child.returncode is None:
                return child
            await child.close(grace=0)
        # -P: the worker's own folder must not hide modules of the libraries that it imports.
        command = [sys.executable, "-P", "-W", "ignore", str(WORKER)]
        return await start(
            command, name="math_equivalence", lifetime=LIFETIME, stdin=PIPE, stdout=PIPE
        )


_pools: dict[asyncio.AbstractEventLoop, tuple[MathProcesses, AsyncGenerator[MathProcesses]]] = {}


async def math_processes() -> MathProcesses:
    """Return the pool that all rewards in the running event loop share, until it ends."""
    loop = asyncio.get_running_loop()
    if loop not in _pools:
        life = _while_the_loop_lives(loop)
        _pools[loop] = (await anext(life), life)
    return _pools[loop][0]


async def _while_the_loop_lives(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[MathProcesses]:
    """Yield a pool that closes with the loop: `asyncio.run` closes open async generators."""
    pool = MathProcesses(size=min(MOST_PROCESSES, os.cpu_count() or 1))
    try:
        yield pool
    finally:
        del _pools[loop]
        await pool.close()


async def _ask(child: Child, request: str, gold: str) -> Comparison:
    assert child.stdin is not None
    # A process that has ended is recognized by its return code, below.
    with suppress(ConnectionError):
        child.stdin.write(request.encode() + b"\n")
        await child.stdin.drain()
    gold_is_readable = await _answer(child)
    if gold_is_readable is False:
        raise RewardError(f"the right answer {gold!r} can't be read as mathematics")
    is_equal = await _answer(child) if gold_is_readable else None
    if is_equal is not None:
        return Comparison.EQUAL if is_equal else Comparison.DIFFERENT
    code = await child.wait()
    if gold_is_readable and code == OUT_OF_TIME:
        return Comparison.TOO_HARD
    doing = "comparing an answer with" if gold_is_readable else "reading"
    raise RewardError(f"the process ended with code {code} while {doing} the right one, {gold!r}")


async def _answer(child: Child) -> bool | None:
    """Read one line; None if the process ended instead."""
    assert child.stdout is not None
    line = await child.stdout.readline()
    return bool(json.loads(line)) if line else None
