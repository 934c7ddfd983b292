"""Where a chain's time goes, and what it was waiting for when it was cut short."""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType

from agentfly.types import Clock, Span, SpanKind


@dataclass(slots=True)
class Stopwatch:
    """Records spans in seconds since the chain was asked for."""

    clock: Clock
    asked_at: float
    spans: list[Span] = field(default_factory=list)
    interrupted: list[Span] = field(default_factory=list)
    """Those that were cancelled in the middle: whatever the chain was stuck in."""

    def span(self, kind: SpanKind, name: str, turn: int | None = None) -> "_Running":
        """Record the body as one span, however it ends."""
        return _Running(self, kind, name, turn)

    def add(self, kind: SpanKind, name: str, *, turn: int | None, start: float) -> None:
        """Record a span that began at `start` on the clock and ends now."""
        since, now = start - self.asked_at, self.clock.now() - self.asked_at
        self.spans.append(Span(kind=kind, name=name, turn=turn, start=since, end=now))

    def describe_interrupted(self) -> str:
        """Say what was interrupted, innermost first, for example `tool 'search' in turn 2`."""
        return ", ".join(
            f"{span.kind.value} {span.name!r}"
            + (f" in turn {span.turn}" if span.turn is not None else "")
            + f" ({span.seconds:.1f} s)"
            for span in self.interrupted
        )


class _Running:
    """A span whose end is still to come."""

    __slots__ = ("_kind", "_name", "_start", "_stopwatch", "_turn")

    def __init__(self, stopwatch: Stopwatch, kind: SpanKind, name: str, turn: int | None) -> None:
        self._stopwatch = stopwatch
        self._kind = kind
        self._name = name
        self._turn = turn
        self._start = stopwatch.clock.now()

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Record how long it took, and whether it was cut short."""
        self._stopwatch.add(self._kind, self._name, turn=self._turn, start=self._start)
        if isinstance(error, asyncio.CancelledError):
            self._stopwatch.interrupted.append(self._stopwatch.spans[-1])
