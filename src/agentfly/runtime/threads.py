"""Threads for synchronous functions, so that none of them ever blocks another chain.

A thread can't be killed. One whose caller gave up (deadline or cancellation) is *abandoned*: it
keeps running under its own name, is counted, and its place is taken by a new thread, up to a bound.
The threads are daemons, so a hung function can't keep the process from ending.
"""

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentfly.errors import EnvError

T = TypeVar("T")

IDLE_SECONDS = 5.0
"""A thread without work for this long ends."""

_IDLE_NAME = "agentfly:idle"


@dataclass(eq=False, slots=True)
class _Job:
    call: Callable[[], Any]
    name: str
    future: asyncio.Future[Any]
    on_start: Callable[[], None] | None = None
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    ended: bool = False


class WorkerThreads:
    """A bounded pool whose hung calls don't starve the others.

    At most `size` calls run while their callers wait. Calls whose callers have given up may
    hold `max_abandoned` further threads; beyond that they eat into `size`.
    """

    def __init__(self, *, size: int = 256, max_abandoned: int = 512) -> None:
        self._size = size
        self._max_threads = size + max_abandoned
        self._lock = threading.Lock()
        self._work_came = threading.Condition(self._lock)
        self._waiting: deque[_Job] = deque()
        self._abandoned: set[_Job] = set()
        self._threads = 0
        self._idle = 0

    @property
    def abandoned(self) -> tuple[str, ...]:
        """Names of the calls whose callers have given up and that still hold a thread."""
        with self._lock:
            return tuple(job.name for job in self._abandoned)

    @property
    def busy(self) -> bool:
        """Whether any call whose caller waits is queued or running."""
        with self._lock:
            return bool(self._waiting) or self._attended() > self._idle

    async def run(
        self, call: Callable[[], T], *, name: str, on_start: Callable[[], None] | None = None
    ) -> T:
        """Run a call in a thread; when cancelled, abandon it.

        `on_start` is called in the event loop as soon as a thread has taken the call.
        """
        job = _Job(call, name, asyncio.get_running_loop().create_future(), on_start)
        self._submit(job)
        try:
            result: T = await job.future
        except asyncio.CancelledError:
            self._give_up(job)
            raise
        return result

    def _submit(self, job: _Job) -> None:
        with self._lock:
            self._waiting.append(job)
            self._serve_waiting()
            if self._attended() == 0:
                self._waiting.remove(job)
                hung = sorted({job.name for job in self._abandoned})
                raise EnvError(
                    f"no thread is left for {job.name}: {len(self._abandoned)} calls ran past "
                    f"their deadline and still run ({', '.join(hung[:5])}). "
                    "Make these functions end in time, or make them async"
                )

    def _serve_waiting(self) -> None:
        """Wake or start one more thread for queued calls, if there is room."""
        if len(self._waiting) <= self._idle:
            self._work_came.notify()
        elif self._attended() < self._size and self._threads < self._max_threads:
            # The system may refuse; queued calls are then served by a thread that exists.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._work, name=_IDLE_NAME, daemon=True).start()
                self._threads += 1

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
            elif not job.ended:
                self._abandoned.add(job)
                if self._waiting:
                    self._serve_waiting()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            threading.current_thread().name = f"agentfly:{job.name}"
            if job.on_start is not None:
                _settle(job, job.on_start)
            outcome = _call(job)
            threading.current_thread().name = _IDLE_NAME
            with self._lock:
                job.ended = True
                self._abandoned.discard(job)
            _settle(job, outcome)
            # What an idle thread still refers to would stay in memory.
            del job, outcome

    def _next(self) -> _Job | None:
        """Wait for a job; None means that the thread must end."""
        with self._lock:
            if self._attended() <= self._size:
                self._idle += 1
                self._work_came.wait_for(lambda: self._waiting, IDLE_SECONDS)
                self._idle -= 1
                if self._waiting:
                    return self._waiting.popleft()
            self._threads -= 1
            return None

    def _attended(self) -> int:
        """Return the number of threads that are not abandoned."""
        return self._threads - len(self._abandoned)


def _call(job: _Job) -> Callable[[], None]:
    """Call it, and return a function that gives the outcome to the waiter."""
    try:
        result = job.context.run(job.call)
    except StopIteration as error:
        # A future can't carry StopIteration: asyncio refuses it, and the waiter would hang.
        return _failure(job, RuntimeError(f"{job.name} raised StopIteration: {error}"))
    except Exception as error:  # noqa: BLE001 - handed to the waiter as it is
        return _failure(job, error)
    except BaseException as error:  # noqa: BLE001 - `exit()` in a tool must not end the process
        kind = type(error).__name__
        return _failure(job, RuntimeError(f"{job.name} raised {kind}: {error}"))
    return functools.partial(job.future.set_result, result)


def _failure(job: _Job, error: Exception) -> Callable[[], None]:
    return functools.partial(job.future.set_exception, error)


def _settle(job: _Job, outcome: Callable[[], None]) -> None:
    """Do this in the event loop, if anybody is still waiting there."""

    def settle() -> None:
        if not job.future.done():
            outcome()

    # A closed loop has taken its waiters with it.
    with contextlib.suppress(RuntimeError):
        job.future.get_loop().call_soon_threadsafe(settle)


@functools.cache
def shared_threads() -> WorkerThreads:
    """Return the pool that this process's tools and rewards share."""
    return WorkerThreads()
