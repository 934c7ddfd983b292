"""A chain's time: its limit, which excludes waiting for others, and the record of where it went.

admitted                leased                                        time is up
   │── runs ──│ waits for a lease │── runs ──│ engine's queue │── runs ──│
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType

from agentfly.types import ChainHandle, Clock, Span, SpanKind


@dataclass(slots=True)
class TimeLimit:
    """Countdown of a chain's own time, paused while the chain waits for others."""

    clock: Clock
    seconds: float
    _end: float = field(init=False)
    _stops: int = 0
    """Number of waits in progress: the calls of one turn may wait concurrently."""
    _stopped_at: float = 0.0
    _expired: bool = False
    _timeout: asyncio.Timeout | None = None

    def __post_init__(self) -> None:
        self._end = self.clock.now() + self.seconds

    @property
    def deadline(self) -> float:
        """Time on the clock at which the limit is reached, if the chain waits no more."""
        if self._expired:
            return self._end
        return self._end + (self.clock.now() - self._stopped_at if self._stops else 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self.clock.now() >= self.deadline

    def enforced(self) -> asyncio.Timeout:
        """Return a timeout that raises TimeoutError in its body when the limit is reached."""
        self._timeout = self.clock.timeout_at(self._end)
        return self._timeout

    def expire(self) -> None:
        """Reach the limit now, also while the countdown is paused."""
        self._end = self.clock.now()
        self._reschedule(self._end)
        self._expired = True

    def stop(self) -> "Wait":
        """Pause the countdown until the returned wait is ended."""
        if not self._stops:
            self._stopped_at = self.clock.now()
            self._reschedule(None)
        self._stops += 1
        return Wait(self)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Pause the countdown in the body."""
        wait = self.stop()
        try:
            yield
        finally:
            wait.end()

    def _go_on(self) -> None:
        self._stops -= 1
        if not self._stops:
            self._end += 0.0 if self._expired else self.clock.now() - self._stopped_at
            self._reschedule(self._end)

    def _reschedule(self, deadline: float | None) -> None:
        """Move the timeout, which runs on the event loop's own clock."""
        if self._timeout is None or self._expired:
            return
        now = asyncio.get_running_loop().time()
        when = None if deadline is None else now + deadline - self.clock.now()
        with suppress(RuntimeError):  # it has expired already: the chain is being ended
            self._timeout.reschedule(when)


@dataclass(slots=True)
class Wait:
    """One wait that is not charged to the chain."""

    _limit: TimeLimit
    ended: bool = False

    def end(self) -> None:
        """Resume the countdown. Ending twice does nothing."""
        if not self.ended:
            self.ended = True
            self._limit._go_on()


@dataclass(slots=True)
class Stopwatch:
    """Recorder of spans, in seconds since the chain was requested."""

    clock: Clock
    asked_at: float
    spans: list[Span] = field(default_factory=list)
    interrupted: list[Span] = field(default_factory=list)
    """Spans that were cancelled: what the chain was waiting for at its time limit."""
    handle: ChainHandle = field(default_factory=ChainHandle)
    """Gets a report whenever a span begins or ends."""
    running: list["_Running"] = field(default_factory=list)
    """Spans in progress."""

    def span(self, kind: SpanKind, name: str, turn: int | None = None) -> "_Running":
        """Record the body as one span, also when it raises."""
        return _Running(self, kind, name, turn)

    def add(self, kind: SpanKind, name: str, *, turn: int | None, start: float) -> None:
        """Record a span that began at `start` on the clock and ends now."""
        since, now = start - self.asked_at, self.clock.now() - self.asked_at
        self.spans.append(Span(kind=kind, name=name, turn=turn, start=since, end=now))

    def report(self) -> None:
        """Report the spans that are in progress."""
        self.handle.report(self._describe_running)

    def _describe_running(self) -> str:
        # A copy, because the watchdog's thread asks too.
        return ", ".join(map(str, tuple(self.running))) or "the agent's own code"

    def describe_interrupted(self) -> str:
        """Describe what was interrupted, innermost first: `tool 'search' in turn 2`."""
        return ", ".join(
            f"{_describe(span.kind, span.name, span.turn)} ({span.seconds:.1f} s)"
            for span in self.interrupted
        )


def _describe(kind: SpanKind, name: str, turn: int | None) -> str:
    return f"{kind.value} {name!r}" + (f" in turn {turn}" if turn is not None else "")


class _Running:
    """Context manager of a span that is in progress."""

    __slots__ = ("_kind", "_name", "_start", "_stopwatch", "_turn")

    def __init__(self, stopwatch: Stopwatch, kind: SpanKind, name: str, turn: int | None) -> None:
        self._stopwatch = stopwatch
        self._kind = kind
        self._name = name
        self._turn = turn
        self._start = stopwatch.clock.now()

    def __str__(self) -> str:
        return _describe(self._kind, self._name, self._turn)

    def __enter__(self) -> None:
        """Start the span."""
        self._stopwatch.running.append(self)
        self._stopwatch.report()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Record its duration, and whether it was cancelled."""
        self._stopwatch.add(self._kind, self._name, turn=self._turn, start=self._start)
        self._stopwatch.running.remove(self)
        self._stopwatch.report()
        if isinstance(error, asyncio.CancelledError):
            self._stopwatch.interrupted.append(self._stopwatch.spans[-1])
