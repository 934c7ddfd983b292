"""A watchdog: nothing stands still without being named, recorded and ended.

    a chain          has done nothing for so long: it ends as stalled, and is retried elsewhere
    a stage          learning, publishing or saving takes too long, or sampling has no chain at all:
                     the run ends with a RunError
    the event loop   is blocked by a call that never awaits: the process ends

Every wait of a chain has a limit of its own; the watchdog is for what such limits do not reach.
It runs in a thread, so that nothing it watches can stop it. Before it ends anything it writes which
chain, tool, environment, server or stage is stuck and since when, with the stacks of all threads
and tasks, to `stalls/` in the run's folder. What can't be ended from within, such as a learner's
thread that never returns, is ended with the process: a run can be resumed after that.
"""

import asyncio
import io
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentfly.errors import RunError
from agentfly.observe.whole_file import whole_file
from agentfly.runtime.clock import in_seconds
from agentfly.runtime.ordered import one_error
from agentfly.types import ChainHandle, StopReason

EXIT_CODE = 70
"""Exit code of a process that could not be ended in another way."""
GRACE_SECONDS = 60.0
"""Time that a run has to end after it was found to be stuck."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Watchdog:
    """Looks for chains and stages in which nothing happens."""

    folder: Path
    """Folder of the reports, one file each."""
    seconds: float
    """Time without any progress that counts as a stall."""
    chains: Mapping[str, ChainHandle] = field(default_factory=dict)
    """Running chains by id."""
    grace_seconds: float = GRACE_SECONDS
    _stage: str = "starting"
    _runs_chains: bool = False
    _since: float = field(default_factory=time.monotonic)
    _answered: float = field(default_factory=time.monotonic)
    """Time at which the event loop last did something."""
    _progress: float = 0.0
    """Time of the last progress of any chain."""
    _ended: set[str] = field(default_factory=set)
    """Chains that were asked to end."""
    _reports: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def stage(self, name: str, *, runs_chains: bool = False) -> Iterator[None]:
        """Note what the run does in the block; with chains, their progress is what counts."""
        before = self._stage, self._runs_chains
        self._enter(name, runs_chains)
        try:
            yield
        finally:
            self._enter(*before)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch while the block runs; RunError ends it if the run can't go on."""
        loop = asyncio.get_running_loop()
        fatal: asyncio.Future[None] = loop.create_future()
        thread = threading.Thread(
            target=self._watch, args=(loop, fatal), name="agentfly-watchdog", daemon=True
        )
        with one_error():
            async with asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(_raised(fatal))
                thread.start()
                try:
                    yield
                finally:
                    self._over.set()
                    thread.join()
                    waiting.cancel()

    def _enter(self, name: str, runs_chains: bool) -> None:  # noqa: FBT001 - private
        self._stage, self._runs_chains, self._since = name, runs_chains, time.monotonic()

    def _watch(self, loop: asyncio.AbstractEventLoop, fatal: "asyncio.Future[None]") -> None:
        self._answered = time.monotonic()
        while not self._over.wait(min(1.0, self.seconds / 4)):
            reports = (handle.since for handle in list(self.chains.values()))
            self._progress = max(self._progress, *reports, 0.0)
            loop.call_soon_threadsafe(self._answer)
            for chain, handle in self._stuck_chains():
                self._end_chain(loop, chain, handle)
            if stuck := self._stuck_run():
                self._end_run(loop, fatal, stuck)
                return

    def _answer(self) -> None:
        self._answered = time.monotonic()

    def _stuck_chains(self) -> list[tuple[str, ChainHandle]]:
        latest = time.monotonic() - self.seconds
        self._ended &= self.chains.keys()
        return [
            (chain, handle)
            for chain, handle in list(self.chains.items())
            if handle.since < latest and chain not in self._ended
        ]

    def _end_chain(self, loop: asyncio.AbstractEventLoop, chain: str, handle: ChainHandle) -> None:
        self._ended.add(chain)
        stuck = f"chain {chain} is stuck in {handle.doing} since {_ago(handle.since)}"
        report = self._report(loop, stuck)
        _log.warning("%s: it is ended. Stacks: %s", stuck, report)
        error = f"StallError: nothing happened in {handle.doing} for {in_seconds(self.seconds)}"
        loop.call_soon_threadsafe(handle.stop, StopReason.STALLED, error)

    def _stuck_run(self) -> str | None:
        now = time.monotonic()
        if now - self._answered > self.seconds:
            return f"the event loop is blocked since {_ago(self._answered)}"
        moved = max(self._since, self._progress)
        # Chains that are being ended have as long again to come to their end.
        allowed = 2 * self.seconds if self._runs_chains and self.chains else self.seconds
        if now - moved <= allowed:
            return None
        left = ", ".join(list(self.chains)[:3])
        named = f" (chains that do not end: {left})" if left else ""
        return f"{self._stage} stands still since {_ago(moved)}{named}"

    def _end_run(
        self, loop: asyncio.AbstractEventLoop, fatal: "asyncio.Future[None]", stuck: str
    ) -> None:
        """End the run, or the process if it does not end by itself."""
        report = self._report(loop, stuck)
        text = f"{stuck}. Stacks of all threads and tasks: {report}. Go on with --resume"
        _log.error("%s", text)

        def end() -> None:
            if not fatal.done():
                fatal.set_exception(RunError(text))

        loop.call_soon_threadsafe(end)
        if not self._over.wait(self.grace_seconds):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
            os._exit(EXIT_CODE)

    def _report(self, loop: asyncio.AbstractEventLoop, stuck: str) -> Path:
        self._reports += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self._reports}.txt"
        with whole_file(path) as file:
            file.write(f"{stuck}\nstage: {self._stage}\n\n{stacks(loop)}".encode())
        return path


async def _raised(fatal: "asyncio.Future[None]") -> None:
    await fatal


def _ago(moment: float) -> str:
    return f"{in_seconds(time.monotonic() - moment)} ago"


def stacks(loop: asyncio.AbstractEventLoop) -> str:
    """Return the stacks of all threads of this process, and of all tasks of an event loop."""
    text = io.StringIO()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        text.write(f"thread {names.get(ident, ident)}\n")
        text.writelines(traceback.format_stack(frame))
        text.write("\n")
    for task in asyncio.all_tasks(loop):
        text.write(f"task {task.get_name()}\n")
        text.writelines(traceback.format_list(list(_awaited(task.get_coro()))))
        text.write("\n")
    return text.getvalue()


def _awaited(coroutine: Any) -> Iterator[traceback.FrameSummary]:
    """Yield the frames of a task that waits, outermost first; asyncio gives the first alone."""
    while coroutine is not None:
        frame = _first(coroutine, "cr_frame", "ag_frame", "gi_frame")
        if frame is not None:
            code = frame.f_code
            yield traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name)
        coroutine = _first(coroutine, "cr_await", "ag_await", "gi_yieldfrom")


def _first(value: object, *names: str) -> Any:
    return next((found for name in names if (found := getattr(value, name, None))), None)
