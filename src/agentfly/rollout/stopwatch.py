"""Where a chain's time goes, and what it was waiting for when it was cut short."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentfly.types import Clock, Span, SpanKind


@dataclass(slots=True)
class Stopwatch:
    """Records spans in seconds since the chain was asked for."""

    clock: Clock
    asked_at: float
    spans: list[Span] = field(default_factory=list)
    interrupted: list[Span] = field(default_factory=list)
    """Those that were cancelled in the middle: whatever the chain was stuck in."""

    @contextmanager
    def span(self, kind: SpanKind, name: str, turn: int | None = None) -> Iterator[None]:
        """Record the body as one span, however it ends."""
        start = self.clock.now()
        try:
            yield
        except asyncio.CancelledError:
            self.interrupted.append(self._span(kind, name, turn, start))
            raise
        finally:
            self.add(kind, name, turn=turn, start=start)

    def add(self, kind: SpanKind, name: str, *, turn: int | None, start: float) -> None:
        """Record a span that began at `start` on the clock and ends now."""
        self.spans.append(self._span(kind, name, turn, start))

    def stuck_in(self) -> str:
        """Say what was interrupted, innermost first, for example `tool 'search' in turn 2`."""
        return ", ".join(
            f"{span.kind.value} {span.name!r}"
            + (f" in turn {span.turn}" if span.turn is not None else "")
            + f" ({span.seconds:.1f} s)"
            for span in self.interrupted
        )

    def _span(self, kind: SpanKind, name: str, turn: int | None, start: float) -> Span:
        since, now = start - self.asked_at, self.clock.now() - self.asked_at
        return Span(kind=kind, name=name, turn=turn, start=since, end=now)
